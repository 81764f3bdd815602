// cli/serve_connections.h -- an HTTP server whose connections have limits, which httplib's have not: time and
// bytes of a request, connections at once, and clients that went away are seen.
#pragma once
#include <cstddef>
#include <httplib.h>

namespace luminal::cli {

struct ConnectionLimits {
  size_t most = 512;                   ///< connections at once; further ones wait until one ends
  size_t head_bytes = 65536;           ///< of the line and the headers of a request
  int request_ms = 30000;              ///< for all of a request, from its first byte
  int pause_ms = 10000;                ///< between two bytes of it
  int idle_ms = 5000;                  ///< between two requests of a connection
  int write_ms = 10000;                ///< until a client takes more of an answer
  size_t body_bytes = size_t(1) << 30; ///< of a body, the frames of its chunks included
  int requests = 1000;                 ///< of one connection
  size_t rest_bytes = 4 << 20; ///< of a refused request that are read, so that the client sees the answer
};

class HttpServer : public httplib::Server {
public:
  explicit HttpServer(const ConnectionLimits& limits = {});
  /// The largest body of a request, in chunks or not.
  void set_body_limit(size_t bytes);

  // Of the request that the calling thread answers:
  /// Its client has closed the connection, or its side of it.
  static bool client_is_gone();
  /// Reading its body was given up at the limit.
  static bool body_is_too_large();
  /// The connection ends with the answer: what follows may be the rest of a body that nobody reads.
  static void close_after_answer();

private:
  bool process_and_close_socket(socket_t socket) override;
  ConnectionLimits limits_;
};

} // namespace luminal::cli
