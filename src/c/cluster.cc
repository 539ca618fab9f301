// What a tenant has in a cluster, in the C interface.
#include "tessera/cluster.h"

#include "c/handles.h"
#include "tessera/tessera_cluster_c.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

// NOLINTBEGIN(readability-identifier-naming): the names of tessera_cluster_c.h
struct tessera_cluster {
  tessera::Cluster cluster;
};
struct tessera_allocation {
  tessera::ClusterAllocation allocation;
};
struct tessera_allocation_list {
  std::vector<tessera::ClusterAllocation> allocations;
};
// NOLINTEND(readability-identifier-naming)

namespace tessera::c {

template <>
inline constexpr const char* kStructureName<tessera_cluster_request> = "tessera_cluster_request";
template <>
inline constexpr const char* kStructureName<tessera_allocation_status> =
    "tessera_allocation_status";

namespace {

Result<ClusterAllocation> acquire(const Cluster& cluster, const tessera_cluster_request* request) {
  TESSERA_TRY(const tessera_cluster_request given, sized(request));
  ClusterRequest wanted;
  wanted.name = text_of(given.name);
  wanted.arch = text_of(given.arch);
  wanted.node = text_of(given.node);
  if (given.cards != 0) wanted.cards = given.cards;
  wanted.cores = given.cores == 0 && wanted.cards == 1 ? 1 : given.cores;
  wanted.memory_bytes = given.memory_bytes;
  if (given.weight != 0) wanted.weight = given.weight;
  return cluster.acquire(wanted);
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_cluster_connect(const char* address, tessera_cluster** cluster) {
  if (cluster == nullptr) return is_null("cluster");
  *cluster = nullptr;
  if (address == nullptr) return is_null("address");
  return guarded([&] { return hand_over(tessera::Cluster::connect(address), cluster); });
}

void tessera_cluster_release(tessera_cluster* cluster) { delete cluster; }

tessera_error* tessera_cluster_acquire(const tessera_cluster* cluster,
                                       const tessera_cluster_request* request,
                                       tessera_allocation** allocation) {
  if (allocation == nullptr) return is_null("allocation");
  *allocation = nullptr;
  if (cluster == nullptr) return is_null("cluster");
  return guarded([&] { return hand_over(acquire(cluster->cluster, request), allocation); });
}

tessera_error* tessera_cluster_resize(const tessera_cluster* cluster, const char* name, int cores,
                                      tessera_allocation** allocation) {
  if (allocation != nullptr) *allocation = nullptr;
  if (cluster == nullptr) return is_null("cluster");
  if (name == nullptr) return is_null("name");
  return guarded([&]() -> tessera_error* {
    auto resized = cluster->cluster.resize(name, cores);
    if (allocation != nullptr) return hand_over(std::move(resized), allocation);
    return resized.ok() ? nullptr : make_error(resized.error());
  });
}

tessera_error* tessera_cluster_free(const tessera_cluster* cluster, const char* name) {
  if (cluster == nullptr) return is_null("cluster");
  if (name == nullptr) return is_null("name");
  return guarded([&] { return make_error(cluster->cluster.release(name)); });
}

tessera_error* tessera_cluster_list(const tessera_cluster* cluster,
                                    tessera_allocation_list** list) {
  if (list == nullptr) return is_null("list");
  *list = nullptr;
  if (cluster == nullptr) return is_null("cluster");
  return guarded([&] { return hand_over(cluster->cluster.allocations(), list); });
}

size_t tessera_allocation_list_count(const tessera_allocation_list* list) {
  return list == nullptr ? 0 : list->allocations.size();
}

tessera_error* tessera_allocation_list_get(const tessera_allocation_list* list, size_t index,
                                           tessera_allocation** allocation) {
  if (allocation == nullptr) return is_null("allocation");
  *allocation = nullptr;
  if (list == nullptr) return is_null("list");
  if (index >= list->allocations.size()) return nullptr;
  return guarded([&]() -> tessera_error* {
    *allocation = new tessera_allocation{list->allocations[index]};
    return nullptr;
  });
}

void tessera_allocation_list_release(tessera_allocation_list* list) { delete list; }

const char* tessera_allocation_name(const tessera_allocation* allocation) {
  return allocation == nullptr ? nullptr : allocation->allocation.name.c_str();
}

const char* tessera_allocation_state(const tessera_allocation* allocation) {
  return allocation == nullptr ? nullptr : allocation->allocation.state.c_str();
}

const char* tessera_allocation_device(const tessera_allocation* allocation) {
  return allocation == nullptr ? nullptr : allocation->allocation.device.c_str();
}

const char* tessera_allocation_node(const tessera_allocation* allocation, size_t place) {
  if (allocation == nullptr || place >= allocation->allocation.places.size()) return nullptr;
  return allocation->allocation.places[place].node.c_str();
}

tessera_error* tessera_allocation_status_get(const tessera_allocation* allocation,
                                             tessera_allocation_status* status) {
  if (allocation == nullptr) return is_null("allocation");
  if (status == nullptr) return is_null("status");
  const tessera::ClusterAllocation& has = allocation->allocation;
  return guarded([&] {
    const tessera_allocation_status full = {.size = sizeof(tessera_allocation_status),
                                            .cores = has.cores,
                                            .places = static_cast<int>(has.places.size()),
                                            .memory_bytes = has.memory_bytes,
                                            .weight = has.weight,
                                            .epoch = has.epoch};
    return make_error(fill(full, status));
  });
}

void tessera_allocation_release(tessera_allocation* allocation) { delete allocation; }

}  // extern "C"
