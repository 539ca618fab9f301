// TLS over a socket, by OpenSSL.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/stream.h"
#include "transport/tls_files.h"

namespace tessera::transport {

// Certificate, key and authority of one side. Thread-safe; outlives its streams.
class TlsContext {
 public:
  static Result<std::unique_ptr<TlsContext>> make(const TlsFiles& files);
  ~TlsContext();

  // Takes the socket. As a client it asks for `server_name`, which the certificate must name.
  std::unique_ptr<ByteStream> client(int descriptor, Peer peer,
                                     const std::string& server_name) const;
  std::unique_ptr<ByteStream> server(int descriptor, Peer peer) const;

 private:
  struct State;
  explicit TlsContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera::transport
