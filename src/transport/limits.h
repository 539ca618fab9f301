// What a connection grants to its peer and to its own side. Everything that one side can make the
// other keep or wait for has a row here.
#pragma once

#include <chrono>
#include <cstddef>

namespace tessera::transport {

struct Limits {
  // A message that comes in; checked before anything is allocated, and what is beyond ends the
  // connection. The same limits hold for what is sent, where the call is refused (kDoesNotFit).
  std::size_t header_bytes = std::size_t{64} << 10;
  std::size_t buffers = 1024;                        // of one message
  std::size_t message_bytes = std::size_t{1} << 30;  // header and buffers together

  // What waits to be sent, over which send() waits: bytes and messages of one connection.
  std::size_t send_bytes = std::size_t{256} << 20;
  std::size_t send_messages = 4096;

  // Received messages of a connection that the application still holds. Beyond, nothing more is read
  // until it gives some back, and the peer comes to wait. One message always fits.
  std::size_t held_bytes = std::size_t{256} << 20;
  std::size_t held_messages = 4096;

  // Time.
  std::chrono::milliseconds handshake_time{
      5'000};  // from the connection to its first message: TLS, greeting
  std::chrono::milliseconds progress_time{
      10'000};  // within a message without a byte; bytes to send that
                // the peer does not take
  std::chrono::milliseconds message_time{120'000};  // from a message's first byte to its last
  std::chrono::milliseconds silence_time{
      10'000};  // without any sign of life; each side gives three in it

  std::size_t connections = 4096;  // of one listener; one more is closed at once
};

}  // namespace tessera::transport
