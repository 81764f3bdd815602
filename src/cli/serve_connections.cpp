// cli/serve_connections.cpp -- sockets of the server, POSIX.
#include "cli/serve_connections.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace luminal::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// The bytes of a connection. What is read ahead of a request stays for the next one (pipelining).
class ClientConnection : public httplib::Stream {
public:
  ClientConnection(socket_t socket, const ConnectionLimits& limits) : socket_(socket), limits_(limits) {
    const int on = 1; // an event of a stream goes out when it is written
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  static ClientConnection*& current() {
    thread_local ClientConnection* connection = nullptr;
    return connection;
  }

  /// Waits for the first byte of a request.
  bool begin_request() {
    if (begin_ == end_ && !ready(POLLIN, limits_.idle_ms)) return false;
    end_of_request_ = SteadyClock::now() + std::chrono::milliseconds(limits_.request_ms);
    head_bytes_ = body_bytes_ = 0;
    in_head_ = true;
    lines_.fill('\0');
    return true;
  }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_ && !fill()) return -1;
    if (begin_ == end_) return 0;
    size = std::min(size, end_ - begin_);
    if (in_head_) size = std::min<size_t>(size, 1);
    std::copy_n(buffer_.begin() + long(begin_), size, to);
    begin_ += size;
    if (in_head_) return count_head(to[0]) ? 1 : -1;
    body_bytes_ += size;
    return body_is_too_large() ? -1 : ssize_t(size);
  }

  ssize_t write(const char* from, size_t size) override {
    if (!ready(POLLOUT, limits_.write_ms)) return -1;
    ssize_t sent;
    do sent = send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    return sent;
  }

  bool is_readable() const override { return begin_ < end_ || ready(POLLIN, limits_.pause_ms); }
  bool is_writable() const override { return ready(POLLOUT, limits_.write_ms) && !gone(); }
  bool wait_readable() const { return is_readable(); } // of later versions of httplib
  bool wait_writable() const { return is_writable(); }

  /// The end of what the client sends is in sight.
  bool gone() const {
    char byte;
    const ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { place(getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { place(getsockname, ip, port); }
  socket_t socket() const override { return socket_; }

  /// Reads what the client still sends for a moment: closed at once, TCP would take the answer back.
  void finish() {
    shutdown(socket_, SHUT_WR);
    const auto end = SteadyClock::now() + std::chrono::seconds(1);
    for (size_t left = limits_.rest_bytes; left > 0;) {
      const auto time =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now()).count();
      if (time <= 0 || !ready(POLLIN, int(time))) break;
      const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (got <= 0) break;
      left -= std::min(left, size_t(got));
    }
    close(socket_);
  }

  bool body_is_too_large() const { return body_bytes_ > limits_.body_bytes; }
  bool closes = false; ///< with the answer

private:
  bool ready(short events, int milliseconds) const {
    pollfd what{socket_, events, 0};
    int got;
    do got = poll(&what, 1, milliseconds);
    while (got < 0 && errno == EINTR);
    return got > 0 && (what.revents & (events | POLLHUP)) != 0;
  }

  /// False where the time is over, or the connection broken.
  bool fill() {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end_of_request_ - SteadyClock::now());
    if (left.count() <= 0 || !ready(POLLIN, int(std::min<long>(left.count(), limits_.pause_ms))))
      return false;
    const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0) return false;
    begin_ = 0;
    end_ = size_t(got);
    return true;
  }

  /// A byte in front of the body. False where these are too many.
  bool count_head(char byte) {
    std::rotate(lines_.begin(), lines_.begin() + 1, lines_.end());
    lines_.back() = byte;
    const std::string_view last(lines_.data(), lines_.size());
    if (last == "\r\n\r\n" || last.ends_with("\n\n")) in_head_ = false;
    return ++head_bytes_ <= limits_.head_bytes;
  }

  template <class Ask> void place(Ask ask, std::string& ip, int& port) const {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> service{};
    if (ask(socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host.data(), host.size(), service.data(),
                    service.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return;
    ip = host.data();
    port = std::stoi(service.data());
  }

  socket_t socket_;
  const ConnectionLimits& limits_;
  std::array<char, 16384> buffer_{};
  size_t begin_ = 0, end_ = 0; ///< of what is read ahead
  SteadyClock::time_point end_of_request_;
  size_t head_bytes_ = 0, body_bytes_ = 0;
  bool in_head_ = true;
  std::array<char, 4> lines_{}; ///< the last bytes of the head
};

/// A thread for each connection, kept for later ones.
class ConnectionThreads : public httplib::TaskQueue {
public:
  using Job = std::function<void()>;
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue(Job())); // bool in later versions
  explicit ConnectionThreads(size_t most) : most_(most) {}

  Taken enqueue(Job job) override {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
      if (idle_ < jobs_.size() && threads_.size() < most_) threads_.emplace_back([this] { work(); });
    }
    changed_.notify_one();
    return static_cast<Taken>(true);
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    threads_.clear(); // joins
  }

private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      idle_++;
      changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      idle_--;
      if (jobs_.empty()) return;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  size_t most_, idle_ = 0;
  bool ending_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<std::jthread> threads_;
};

} // namespace

HttpServer::HttpServer(const ConnectionLimits& limits) : limits_(limits) {
  new_task_queue = [most = limits.most] { return new ConnectionThreads(most); };
}

bool HttpServer::client_is_gone() {
  const ClientConnection* connection = ClientConnection::current();
  return connection != nullptr && connection->gone();
}

bool HttpServer::body_is_too_large() {
  const ClientConnection* connection = ClientConnection::current();
  return connection != nullptr && connection->body_is_too_large();
}

void HttpServer::set_body_limit(size_t bytes) {
  set_payload_max_length(bytes);         // what a request announces
  limits_.body_bytes = 8 * bytes + 1024; // what comes: chunks of a byte take six
}

void HttpServer::close_after_answer() {
  if (ClientConnection* connection = ClientConnection::current()) connection->closes = true;
}

bool HttpServer::process_and_close_socket(socket_t socket) {
  ClientConnection connection(socket, limits_);
  ClientConnection::current() = &connection;
  bool worked = true;
  for (int left = limits_.requests; left > 0 && is_running() && connection.begin_request(); left--) {
    bool closed = false;
    worked = process_request(connection, left == 1, closed, nullptr);
    if (!worked || closed || connection.closes) break;
  }
  ClientConnection::current() = nullptr;
  connection.finish();
  return worked;
}

} // namespace luminal::cli
