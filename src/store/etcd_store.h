// The store in etcd 3.4 or newer, over its gRPC interface.
//
// One connection to each endpoint, made when it is first needed. A call goes to the endpoint that
// answered last, and on to the next where that one does not answer, has lost its leader or is not
// there: reads and leases until the deadline, a transaction only where it is certain that the one
// before did not carry it out.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"

namespace tessera::store {

struct EtcdOptions {
  std::vector<std::string> endpoints{};  // "HOST:PORT", at least one

  // TLS: PEM files. `authority` alone checks the servers; certificate and key besides show who calls.
  // All empty: no TLS.
  std::string authority_file{}, certificate_file{}, key_file{};

  // Where etcd asks for users. The password comes from a file, whose last line end does not count.
  std::string user{}, password_file{};

  // How long one endpoint may take before the next is asked.
  std::chrono::milliseconds attempt_time{1000};
};

// An error where the options are wrong or a file cannot be read. Whether etcd is there shows at the
// first call. The store outlives its watches.
Result<std::unique_ptr<Store>> connect_etcd(const EtcdOptions& options);

}  // namespace tessera::store
