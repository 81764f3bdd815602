// search/measurer_worker.cpp -- the measurer behind a process of its own: a candidate that crashes
// or hangs costs the worker, not the search.
#include "base/check.h"
#include "base/clock.h"
#include "base/print.h"
#include "base/text.h"
#include "search/measurer.h"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace luminal::search {
namespace {

enum class Call : uint32_t { add, time, run };
struct Request {
  Call call = Call::add;
  int32_t candidate = 0, launches = 0;
  uint32_t poison = 0;
  uint64_t object_bytes = 0, entry_bytes = 0; // follow, with add
  int64_t shared_bytes = 0, local_bytes = 0;
  uint32_t barriers = 1, workers = 0;
};
struct Reply {
  uint32_t failed = 0, text_bytes = 0; // the reason follows
  double seconds = 0;
};
constexpr size_t longest_reason = 4096;

bool send_all(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= size_t(n);
  }
  return true;
}

/// When a call of the child is late: after `seconds` in which the child had the processor for half
/// of them at least. Beside other busy processes it gets less, and that is not its fault; one that
/// sleeps for ever is late in the end, too.
class Limit {
public:
  Limit(pid_t child, double seconds) : seconds_(seconds), begin_(seconds_now()), next_(begin_ + seconds) {
    known_ = clock_getcpuclockid(child, &clock_) == 0;
    used_ = used();
  }
  /// Milliseconds until it is worth to look again; 0: it is late.
  int wait_ms() {
    const double now = seconds_now();
    if (now >= next_) {
      if (!known_ || used() - used_ >= seconds_ / 2 || now - begin_ >= patience * seconds_) return 0;
      next_ = now + std::max(0.01, seconds_ / 8);
    }
    return int(std::min(std::ceil((next_ - now) * 1000), 1e9));
  }
  static constexpr double patience = 8;

private:
  /// Processor time of all threads of the child.
  double used() const {
    timespec t{};
    return known_ && clock_gettime(clock_, &t) == 0 ? double(t.tv_sec) + 1e-9 * double(t.tv_nsec) : 0;
  }
  double seconds_, begin_, next_, used_ = 0;
  clockid_t clock_ = 0;
  bool known_ = false;
};

enum class Received : uint8_t { all, closed, late };
/// limit: null: none.
Received receive_all(int socket, void* data, size_t bytes, Limit* limit) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const int wait_ms = limit ? limit->wait_ms() : -1;
    if (wait_ms == 0) return Received::late;
    pollfd ready{socket, POLLIN, 0};
    const int count = poll(&ready, 1, wait_ms);
    if (count < 0 && errno != EINTR) return Received::closed;
    if (count <= 0) continue;
    const ssize_t n = recv(socket, at, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Received::closed;
    at += n;
    bytes -= size_t(n);
  }
  return Received::all;
}

/// Memory that both processes see: outputs come back in it.
class SharedBytes {
public:
  explicit SharedBytes(int64_t bytes) : bytes_(size_t(std::max<int64_t>(bytes, 1))) {
    void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    data_ = data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
  }
  ~SharedBytes() {
    if (data_) munmap(data_, bytes_);
  }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  std::byte* data() const { return data_; }

private:
  std::byte* data_ = nullptr;
  size_t bytes_;
};

class WorkerProcess final : public Measurer {
public:
  WorkerProcess(std::shared_ptr<const Workload> work, const MeasurerOptions& options)
      : work_(std::move(work)), options_(options), outputs_(output_bytes()) {}
  ~WorkerProcess() override { stop(); }

  Result<int> add(CandidateCode code) override {
    const int number = int(codes_.size());
    codes_.push_back(std::move(code));
    if (child_ < 0) { // the child that begins now has it from the start
      auto begun = start();
      if (!begun) codes_.pop_back();
      if (!begun) return begun.failure();
    } else {
      const CandidateCode& c = codes_.back();
      Request request{.call = Call::add, .shared_bytes = c.shared_bytes, .local_bytes = c.local_bytes};
      request.object_bytes = c.object->size();
      request.entry_bytes = c.entry.size();
      request.barriers = c.barriers;
      request.workers = uint32_t(c.workers);
      if (!send_all(socket_, &request, sizeof request) ||
          !send_all(socket_, c.entry.data(), c.entry.size()) ||
          !send_all(socket_, c.object->data(), c.object->size())) {
        stop(); // it is gone; the next one has the candidate from the start
        if (auto begun = start(); !begun) {
          codes_.pop_back();
          return begun.failure();
        }
      }
    }
    return number;
  }

  Result<double> time(int candidate, int launches) override {
    auto reply = ask({.call = Call::time, .candidate = candidate, .launches = launches});
    if (!reply) return reply.failure();
    return reply->seconds;
  }

  Result<Outputs> run(int candidate, std::byte poison) override {
    if (!outputs_.data()) return Failure{"no memory to share with the worker process"};
    auto reply = ask({.call = Call::run, .candidate = candidate, .poison = uint32_t(poison)});
    if (!reply) return reply.failure();
    Outputs outputs(work_->arguments.size());
    const std::byte* at = outputs_.data();
    for (size_t i = 0; i < outputs.size(); i++) {
      const WorkArgument& a = work_->arguments[i];
      if (a.access == kernel::Access::in) continue;
      outputs[i].assign(at, at + a.bytes);
      at += a.bytes;
    }
    return outputs;
  }

private:
  int64_t output_bytes() const {
    int64_t total = 0;
    for (const WorkArgument& a : work_->arguments)
      if (a.access != kernel::Access::in) total += a.bytes;
    return total;
  }

  Result<void> start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return Failure{fmt::format("a worker process cannot be started: {}", std::strerror(errno))};
    const pid_t child = fork();
    if (child < 0) {
      close(ends[0]);
      close(ends[1]);
      return Failure{fmt::format("a worker process cannot be started: {}", std::strerror(errno))};
    }
    if (child == 0) {
      close(ends[0]);
      socket_ = ends[1];
      int code = 1;
      try { // nothing of the parent's stack is unwound in the child
        serve();
        code = 0;
      } catch (const std::exception& e) {
        print_stderr("luminal: worker process: {}\n", e.what());
      }
      _exit(code);
    }
    close(ends[1]);
    child_ = child;
    socket_ = ends[0];
    return {};
  }

  /// Ends the child; how it ended, for a message.
  std::string stop() {
    if (child_ < 0) return "";
    close(socket_);
    kill(child_, SIGKILL);
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = socket_ = -1;
    if (WIFSIGNALED(status))
      return fmt::format("signal {}, {}", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return fmt::format("exit code {}", WEXITSTATUS(status));
  }
  /// The same for one that closed its end: it is given a moment to die by itself, so that its own
  /// signal is told.
  std::string bury() {
    for (int i = 0; i < 2000; i++) {
      siginfo_t info{};
      if (waitid(P_PID, id_t(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child_)
        break;
      usleep(1000);
    }
    return stop();
  }

  Result<Reply> ask(Request request) {
    LUMINAL_CHECK(request.candidate >= 0 && size_t(request.candidate) < codes_.size());
    if (child_ < 0)
      if (auto begun = start(); !begun) return begun.failure();
    Limit limit(child_, options_.seconds);
    Reply reply;
    std::string text;
    Received received = Received::closed;
    if (send_all(socket_, &request, sizeof request)) {
      received = receive_all(socket_, &reply, sizeof reply, &limit);
      if (received == Received::all && reply.text_bytes > 0) {
        text.resize(std::min<size_t>(reply.text_bytes, longest_reason));
        received = receive_all(socket_, text.data(), text.size(), &limit);
      }
    }
    if (received == Received::late) {
      stop();
      return Failure{fmt::format("no end within {}", human_time(options_.seconds))};
    }
    if (received == Received::closed) return Failure{fmt::format("crashed: {}", bury())};
    if (reply.failed) return Failure{text};
    return reply;
  }

  // ---- in the child ----

  bool reply(const Reply& head, const std::string& text) {
    Reply r = head;
    r.text_bytes = uint32_t(std::min(text.size(), longest_reason));
    return send_all(socket_, &r, sizeof r) && send_all(socket_, text.data(), r.text_bytes);
  }

  void serve() {
    signal(SIGINT, SIG_IGN); // Ctrl-C is for the parent to act upon
    for (const int fatal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGTERM})
      signal(fatal, SIG_DFL);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const auto inside = make_in_process_measurer(work_, options_);
    std::vector<Result<int>> numbers; // loaded when first used
    Request request;
    while (receive_all(socket_, &request, sizeof request, nullptr) == Received::all) {
      if (request.call == Call::add) {
        CandidateCode code{nullptr,
                           std::string(request.entry_bytes, 0),
                           request.shared_bytes,
                           request.local_bytes,
                           request.barriers != 0,
                           int(request.workers)};
        std::vector<std::byte> object(request.object_bytes);
        if (receive_all(socket_, code.entry.data(), code.entry.size(), nullptr) != Received::all ||
            receive_all(socket_, object.data(), object.size(), nullptr) != Received::all)
          return;
        code.object = std::make_shared<const std::vector<std::byte>>(std::move(object));
        codes_.push_back(std::move(code));
        continue;
      }
      // A child whose parent died does not run for ever.
      alarm(unsigned(std::min(Limit::patience * options_.seconds + 2, 1e6)));
      while (numbers.size() < codes_.size()) numbers.push_back(inside->add(codes_[numbers.size()]));
      const auto& number = numbers[size_t(request.candidate)];
      bool sent = false;
      if (!number) {
        sent = reply({.failed = 1}, number.error());
      } else if (request.call == Call::time) {
        const auto seconds = inside->time(*number, request.launches);
        sent = seconds ? reply({.seconds = *seconds}, "") : reply({.failed = 1}, seconds.error());
      } else {
        const auto outputs = inside->run(*number, std::byte(request.poison));
        std::byte* at = outputs_.data();
        if (outputs)
          for (const auto& output : *outputs) {
            if (!output.empty()) std::memcpy(at, output.data(), output.size());
            at += output.size();
          }
        sent = outputs ? reply({}, "") : reply({.failed = 1}, outputs.error());
      }
      alarm(0);
      if (!sent) return;
    }
  }

  std::shared_ptr<const Workload> work_;
  MeasurerOptions options_;
  SharedBytes outputs_;
  std::vector<CandidateCode> codes_;
  pid_t child_ = -1;
  int socket_ = -1;
};

} // namespace

std::unique_ptr<Measurer> make_worker_measurer(std::shared_ptr<const Workload> work,
                                               const MeasurerOptions& options) {
  return std::make_unique<WorkerProcess>(std::move(work), options);
}

} // namespace luminal::search
