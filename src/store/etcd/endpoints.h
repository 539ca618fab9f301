// The members of etcd, and how a call finds one that answers. The only header that includes gRPC, for
// the sources of this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "rpc.grpc.pb.h"
#include "store/etcd_store.h"

namespace tessera::store::etcd {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// One member. Its stubs are thread-safe.
struct Endpoint {
  std::string address{};
  std::shared_ptr<grpc::Channel> channel{};  // shared with its stubs, by gRPC's interface
  std::unique_ptr<etcdserverpb::KV::Stub> kv{};
  std::unique_ptr<etcdserverpb::Lease::Stub> lease{};
  std::unique_ptr<etcdserverpb::Watch::Stub> watch{};
  std::unique_ptr<etcdserverpb::Auth::Stub> auth{};
  std::atomic<Clock::rep> last_answer{0};  // when a quorum answered through it
};

// Whether a call may be made again where it is not known if it was carried out.
enum class Repeat { kAllowed, kForbidden };

// What became of one attempt.
using Attempt = std::function<grpc::Status(Endpoint&, grpc::ClientContext&)>;

// Thread-safe.
class Endpoints {
 public:
  static Result<std::shared_ptr<Endpoints>> make(const EtcdOptions& options);

  // Calls members, the one that answered last first, until one has answered or the time is over.
  // `what` names the call in errors: "read '/nodes'".
  // The status is OK, or one with which etcd refused the call itself; everything else is an Error.
  Result<grpc::Status> call(const std::string& what, Repeat repeat, Milliseconds timeout,
                            const Attempt& attempt);

  // For streams: the member to begin with, its context prepared; the next one after a failure.
  std::size_t preferred() const { return preferred_; }
  std::size_t count() const { return endpoints_.size(); }
  Endpoint& at(std::size_t index) { return *endpoints_[index % endpoints_.size()]; }
  // Whether the member is connected, waiting until then. False at once where it refuses.
  static bool connect(Endpoint& endpoint, Clock::time_point deadline);
  // A read that a quorum confirms.
  grpc::Status ask_quorum(Endpoint& endpoint, std::chrono::system_clock::time_point deadline);
  // Metadata of every call; with a user, the token, which it asks for first.
  grpc::Status prepare(Endpoint& endpoint, grpc::ClientContext& context);
  void forget_token();

  Milliseconds attempt_time() const { return attempt_time_; }
  std::string describe() const;  // "etcd 127.0.0.1:2379, 127.0.0.1:22379"

 private:
  Endpoints() = default;
  struct Round;
  enum class Verdict { kAnswered, kNext, kUnknown };
  Verdict try_one(std::size_t index, const Attempt& attempt, Clock::time_point deadline,
                  std::size_t left, Round& round);
  Error give_up(const std::string& what, Milliseconds timeout, const Round& round) const;

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Milliseconds attempt_time_{1000};
  bool has_tls_ = false;
  std::string user_, password_;
  std::atomic<std::size_t> preferred_ = 0;
  mutable std::mutex token_mutex_;
  std::string token_;
};

// The deadline as gRPC takes it.
std::chrono::system_clock::time_point wall_deadline(Clock::time_point deadline);

// The end of the range of keys that begin with `prefix`, as etcd takes it.
std::string range_end_of(const std::string& prefix);

// Makes a request one of all keys below a prefix; of every key where it is empty.
template <typename Request>
void set_prefix(Request& request, const std::string& prefix) {
  request.set_key(prefix.empty() ? std::string(1, '\0') : prefix);
  request.set_range_end(range_end_of(prefix));
}

Entry entry_of(const mvccpb::KeyValue& pair);

// A watch that a thread of its own keeps going. `from` is above 0.
std::unique_ptr<Watch> start_watch(std::shared_ptr<Endpoints> endpoints, std::string prefix,
                                   WatchOptions options);

}  // namespace tessera::store::etcd
