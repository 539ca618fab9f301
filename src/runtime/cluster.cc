// What a tenant has in a cluster: calls to its masters, as tessera/cluster.h tells them.
#include "tessera/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/process_mark.h"
#include "cluster/address.h"
#include "cluster/fields.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"

namespace tessera {

using cluster::ClusterAddress;
using cluster::Fields;
using nlohmann::json;
using runtime::ClusterConnection;

namespace runtime {

// An address without a processor. For several threads at once.
class ClusterConnection {
 public:
  static Result<std::shared_ptr<ClusterConnection>> open(const std::string& text);
  // A request to the leading master, as the tenant of the address.
  Result<json> call(json request);
  // As a master says it; what is no allocation is an error.
  Result<ClusterAllocation> allocation(const json& document) const;

 private:
  ClusterConnection(ClusterAddress address, std::string device,
                    std::unique_ptr<cluster::Messenger> messenger);

  const ProcessMark mark_;  // the messenger has a thread
  const ClusterAddress address_;
  const std::string device_;  // to which the allocation's name comes
  const std::unique_ptr<cluster::Messenger> messenger_;
  cluster::MasterClient master_;
};

ClusterConnection::ClusterConnection(ClusterAddress address, std::string device,
                                     std::unique_ptr<cluster::Messenger> messenger)
    : address_(std::move(address)),
      device_(std::move(device)),
      messenger_(std::move(messenger)),
      master_(*messenger_, address_.masters) {}

Result<std::shared_ptr<ClusterConnection>> ClusterConnection::open(const std::string& text) {
  TESSERA_TRY(ClusterAddress address, cluster::parse_cluster_address(text));
  if (address.has_processor) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("'{}': cores, cards, arch, memory, weight, name, node and alloc are of "
                    "a processor; give them to acquire()",
                    text)};
  }
  TESSERA_TRY(auto messenger, cluster::Messenger::create(address.messenger));
  const bool has_keys = text.find('?') != std::string::npos;
  return std::shared_ptr<ClusterConnection>(
      new ClusterConnection(std::move(address), text + (has_keys ? "&alloc=" : "?alloc="),
                            std::move(messenger)),
      DeleteHere{});
}

Result<json> ClusterConnection::call(json request) {
  TESSERA_RETURN_IF_ERROR(mark_.check("connection to a cluster"));
  if (!address_.tenant.empty()) request["tenant"] = address_.tenant;
  if (!address_.token.empty()) request["token"] = address_.token;
  return master_.call(std::move(request), address_.patience);
}

namespace {

ClusterPlace place_of(Fields& fields) {
  ClusterPlace place;
  place.node = fields.text("node");
  place.card = static_cast<int>(fields.integer("card", 0, 1 << 20));
  for (const std::int64_t core : fields.integers("cores", 0, 1 << 20)) {
    place.cores.push_back(static_cast<int>(core));
  }
  return place;
}

}  // namespace

Result<ClusterAllocation> ClusterConnection::allocation(const json& document) const {
  Fields fields(document, "answer of a master");
  ClusterAllocation allocation;
  allocation.name = fields.name("alloc");
  allocation.tenant = fields.text("tenant");
  allocation.state = fields.text("state");
  allocation.cores = static_cast<int>(fields.integer("cores_wanted", 0, 1 << 20));
  allocation.arch = fields.text("arch");
  allocation.memory_bytes = fields.integer("memory_bytes", 0, cluster::kNumberMax);
  allocation.weight = fields.integer("weight", 1, cluster::kNumberMax);
  allocation.epoch = fields.integer("epoch", 0, cluster::kNumberMax);
  allocation.device = device_ + allocation.name;
  const ClusterPlace first = place_of(fields);
  if (allocation.state == "waits") {
    // What a broken one still has is being taken back.
  } else if (!fields.has("cards")) {
    if (!first.node.empty()) allocation.places.push_back(first);
  } else if (const json* const cards = fields.array("cards")) {
    for (const json& card : *cards) {
      Fields of_card(card, "answer of a master");
      allocation.places.push_back(place_of(of_card));
      TESSERA_RETURN_IF_ERROR(of_card.status());
    }
  }
  TESSERA_RETURN_IF_ERROR(fields.status());
  return allocation;
}

}  // namespace runtime

Result<Cluster> Cluster::connect(const std::string& address) {
  TESSERA_TRY(auto connection, ClusterConnection::open(address));
  return Cluster(std::move(connection));
}

Result<ClusterAllocation> Cluster::acquire(const ClusterRequest& request) const {
  json document = {{"call", "acquire"},        {"cores", request.cores},
                   {"arch", request.arch},     {"memory_bytes", request.memory_bytes},
                   {"weight", request.weight}, {"kept", true}};
  if (!request.name.empty()) document["name"] = request.name;
  if (!request.node.empty()) document["node"] = request.node;
  if (request.cards != 1) document["cards"] = request.cards;
  TESSERA_TRY(const json answer, connection_->call(std::move(document)));
  return connection_->allocation(answer);
}

Result<ClusterAllocation> Cluster::resize(const std::string& name, int cores) const {
  TESSERA_TRY(const json answer,
              connection_->call({{"call", "resize"}, {"alloc", name}, {"cores", cores}}));
  return connection_->allocation(answer);
}

Status Cluster::release(const std::string& name) const {
  TESSERA_TRY(const json answer, connection_->call({{"call", "release"}, {"alloc", name}}));
  return {};
}

Result<std::vector<ClusterAllocation>> Cluster::allocations() const {
  TESSERA_TRY(const json answer, connection_->call({{"call", "status"}}));
  Fields fields(answer, "answer of a master");
  const json* const allocs = fields.array("allocs");
  TESSERA_RETURN_IF_ERROR(fields.status());
  std::vector<ClusterAllocation> allocations;
  for (const json& alloc : *allocs) {
    TESSERA_TRY(allocations.emplace_back(), connection_->allocation(alloc));
  }
  std::ranges::sort(allocations, {},
                    [](const ClusterAllocation& one) { return std::pair(one.name, one.tenant); });
  return allocations;
}

}  // namespace tessera
