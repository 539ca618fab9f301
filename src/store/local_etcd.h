// etcd on this machine, as processes that are started here: for tests, and for a cluster to try.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::store {

struct LocalEtcdOptions {
  int members = 1;       // 1 to 9
  std::string folder{};  // where each member's data and log lie; made where it is not there
  std::string program = "etcd";
  // Where members listen for clients, an IP address, and the host that clients use; empty: the address.
  std::string address = "127.0.0.1", host{};
  std::chrono::milliseconds start_time{20'000};  // until all members are healthy
  std::chrono::milliseconds heartbeat{100}, election{1000};
  // TLS for clients, which then need a certificate of the authority; PEM files, all or none.
  std::string authority_file{}, certificate_file{}, key_file{};
  // Where members reach one that listens for them at `endpoint` ("HOST:PORT"): another end of the way there, which a
  // test can break. Called in the order of members; none: there.
  std::function<std::string(const std::string& endpoint)> way_to_member{};
  // Extra arguments for every member.
  std::vector<std::string> arguments{};
};

// The path of etcd as execvp would find it; kUnsupported where there is none, with the package's name.
Result<std::string> find_etcd(const std::string& program = "etcd");

// Members listen on ports that were free; for each other on loopback, and for clients too unless told otherwise. The destructor ends them, and they end with the
// thread that started them, so that a process that is killed leaves none; the folder stays. Not
// thread-safe.
class LocalEtcd {
 public:
  static Result<std::unique_ptr<LocalEtcd>> start(const LocalEtcdOptions& options);
  ~LocalEtcd();

  const std::vector<std::string>& endpoints() const { return endpoints_; }  // "HOST:PORT"
  pid_t process(int member) const { return members_.at(static_cast<std::size_t>(member)).process; }

  // For tests of failures. 0-based. kill() waits until the member is gone.
  void kill(int member);
  void pause(int member);
  void resume(int member);
  Status restart(int member);  // after kill(), with the data it had

 private:
  struct Member {
    pid_t process = -1;
    std::vector<std::string> arguments{};
    std::string log{};
  };
  explicit LocalEtcd(LocalEtcdOptions options) : options_(std::move(options)) {}
  std::vector<std::string> arguments_of(int member, const std::vector<int>& ports,
                                        const std::vector<std::string>& reached_at) const;
  Status launch(Member& member);
  Status wait_until_healthy(std::size_t member);

  LocalEtcdOptions options_;
  std::string program_;
  std::vector<Member> members_;
  std::vector<std::string> endpoints_;
};

}  // namespace tessera::store
