// Connections over UCX: RDMA where there is a network for it, TCP otherwise. An optional part of the
// build; without it make() says so.
//
// UCX chooses networks by its own variables (UCX_TLS, UCX_NET_DEVICES); where UCX_TLS is not set it is
// tcp. One worker serves all connections of a transport, under one lock.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "transport/address.h"
#include "transport/loop.h"
#include "transport/stream.h"

namespace tessera::transport {

// Thread-safe. Streams and listeners keep what they need of it.
class Ucx {
 public:
  static bool is_built();
  // On the loop from now on, until the loop ends. The loop outlives it.
  static Result<std::shared_ptr<Ucx>> make(const std::shared_ptr<Loop>& loop);
  virtual ~Ucx() = default;

  // After the loop's end.
  virtual void finish() = 0;

  virtual Result<std::unique_ptr<ByteStream>> connect(const Address& address) = 0;

  // `on_stream` is called on the loop's thread. Stops when the listener is destroyed.
  using OnStream = std::function<void(std::unique_ptr<ByteStream>)>;
  class Listening {
   public:
    virtual ~Listening() = default;
    virtual const Address& address() const = 0;
  };
  virtual Result<std::unique_ptr<Listening>> listen(const Address& address, OnStream on_stream) = 0;
};

}  // namespace tessera::transport
