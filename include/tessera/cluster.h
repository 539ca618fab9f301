// The processors that a tenant has in a cluster (docs/cluster.md), taken, changed and given back by an application.
//
//   Cluster::connect("cluster:HOST:PORT")
//     └─ acquire({.name = "a", .cores = 4}) ─► ClusterAllocation ─► Session::open(network, {.cluster = a.device})
//          resize("a", 8)   while sessions, runtimes and other processes run on it
//          release("a")
//
// What is acquired here stays until somebody releases it, also behind the end of this process; a device that is
// opened with "cluster:HOST:PORT?cores=4" has cores of its own for as long as it is open, and needs none of this.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/result.h"

namespace tessera {

namespace runtime {
class ClusterConnection;  // what is behind the handle; see src/runtime/cluster.cc
}

// What a tenant asks for.
struct ClusterRequest {
  std::string name =
      {};         // of the tenant's own, of letters, digits, '.', '_' and '-'; empty: made up
  int cores = 1;  // at least 1; 0: all of its cards
  int cards = 1;  // more: as a whole, of one or several machines
  std::string arch = {};  // of the cards; empty: of any
  std::string node = {};  // that it is to be on; empty: any
  std::int64_t memory_bytes =
      0;  // of each group in which it has a core; 0: a core's part of a group's memory
  std::int64_t weight = 1;  // of its channels, 1 to 16
};

// Cores of a card that an allocation has.
struct ClusterPlace {
  std::string node;
  int card = 0;  // of the node
  std::vector<int> cores;
};

// An allocation as it was when it was asked for.
struct ClusterAllocation {
  std::string name, tenant;
  // "placed"; "waits" for a node with room (what it had is gone, or it was never there); "unreachable": its node is
  // gone, and is waited for.
  std::string state;
  std::vector<ClusterPlace> places;  // of each of its cards; none while it waits
  int cores = 1;                     // that it has, or waits for
  std::string arch;
  std::int64_t memory_bytes = 0, weight = 1;
  std::int64_t epoch = 1;  // larger with each node that it comes to
  // As the device of a Session, a Runtime or a service, with everything that the cluster was connected with.
  std::string device;
};

// A handle that may be copied and used by several threads at once. Calls go to whichever master leads, and wait for
// one as long as the address says (patience=). Errors: kInvalidArgument names what is wrong, what the cluster has
// not, or the tenant's quota; kUnavailable: there is no room at present, or no master leads.
class Cluster {
 public:
  // "cluster:HOST:PORT[,HOST:PORT...][?KEY=VALUE&...]" as of a device, with the keys of who one is and how to get
  // there (tenant, token_file, tls_..., patience, medium, in_flight); those of a processor belong to acquire().
  // Asks nobody yet.
  static Result<Cluster> connect(const std::string& address);

  // Cores of its own, until they are released; where there is no room for them, the error says what there is.
  Result<ClusterAllocation> acquire(const ClusterRequest& request = {}) const;
  // Other cores, 1 or more, of which it keeps what it can; runs that are under way end on the old ones. Where there
  // is no room for them it keeps what it has.
  Result<ClusterAllocation> resize(const std::string& name, int cores) const;
  // Whoever uses it gets errors from now on. Where a master carried it out and did not get to answer, another one says
  // that there is none.
  Status release(const std::string& name) const;
  // The tenant's own, by name. An operator sees everybody's; what it names, also as a device, is its own of that name,
  // or else the only one.
  Result<std::vector<ClusterAllocation>> allocations() const;

  // Internal.
  explicit Cluster(std::shared_ptr<runtime::ClusterConnection> connection)
      : connection_(std::move(connection)) {}

 private:
  std::shared_ptr<runtime::ClusterConnection> connection_;  // shared with copies
};

}  // namespace tessera
