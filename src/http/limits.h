// What a server grants to its clients. Everything that a client can make the server
// keep, wait for or repeat has a row here; docs/runtime.md has the same table.
#pragma once

#include <chrono>
#include <cstddef>

namespace tessera::http {

struct Limits {
  // A request. What is longer is answered with the status named here, and its connection ends.
  std::size_t target_bytes = 4096;                 // path and query of the request line: 414
  std::size_t header_bytes = 16 << 10;             // request line and header fields together: 431
  std::size_t header_fields = 64;                  // 431
  std::size_t body_bytes = std::size_t{64} << 10;  // also of chunks, as they come in: 413

  // Time.
  std::chrono::milliseconds request_time{10'000};   // from its first byte to its last: 408
  std::chrono::milliseconds idle_time{15'000};      // without a request: closed
  std::chrono::milliseconds handler_time{30'000};   // the program's, to answer: 503
  std::chrono::milliseconds progress_time{10'000};  // a reader that takes nothing: closed
  std::chrono::milliseconds response_time{
      60'000};                                  // for a response, or a piece of a stream: closed
  std::chrono::milliseconds linger_time{1000};  // for the last response to arrive
  std::size_t linger_bytes = std::size_t{256} << 10;  // that are thrown away meanwhile: closed

  // At once.
  std::size_t connections =
      64;                    // one more takes the place of one that sends nothing or is slow; 503
  std::size_t streams = 16;  // responses without an end: 503
  std::size_t response_bytes = std::size_t{24} << 20;  // of all responses not yet taken: 503
  std::size_t piece_bytes = std::size_t{8} << 20;      // of a streamed response: the stream ends
  std::size_t socket_buffer_bytes = std::size_t{64} << 10;  // the system's, each way, a connection
};

}  // namespace tessera::http
