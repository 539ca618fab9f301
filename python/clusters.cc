// What a tenant has in a cluster.
#include "binding.h"
#include "tessera/cluster.h"

namespace tessera::python {
namespace {

py::dict allocation_of(const ClusterAllocation& of) {
  py::list places;
  for (const ClusterPlace& place : of.places) {
    py::dict one;
    one["node"] = place.node;
    one["card"] = place.card;
    one["cores"] = place.cores;
    places.append(one);
  }
  py::dict allocation;
  allocation["name"] = of.name;
  allocation["tenant"] = of.tenant;
  allocation["state"] = of.state;
  allocation["places"] = places;
  allocation["cores"] = of.cores;
  allocation["arch"] = of.arch;
  allocation["memory_bytes"] = of.memory_bytes;
  allocation["weight"] = of.weight;
  allocation["epoch"] = of.epoch;
  allocation["device"] = of.device;
  return allocation;
}

py::dict acquire(const Cluster& cluster, const std::string& name, int cores, int cards,
                 const std::string& arch, const std::string& node, std::int64_t memory_bytes,
                 std::int64_t weight) {
  const ClusterRequest wanted{.name = name,
                              .cores = cores,
                              .cards = cards,
                              .arch = arch,
                              .node = node,
                              .memory_bytes = memory_bytes,
                              .weight = weight};
  return allocation_of(take(unlocked([&] { return cluster.acquire(wanted); })));
}

}  // namespace

void define_clusters(py::module_& module) {
  py::class_<Cluster>(
      module, "Cluster",
      "The processors that a tenant has in a cluster: taken, changed and given back.")
      .def(py::init([](const std::string& address) { return take(Cluster::connect(address)); }),
           py::arg("address"))
      .def("acquire", &acquire, py::kw_only(), py::arg("name") = "", py::arg("cores") = 1,
           py::arg("cards") = 1, py::arg("arch") = "", py::arg("node") = "",
           py::arg("memory_bytes") = 0, py::arg("weight") = 1)
      .def(
          "resize",
          [](const Cluster& cluster, const std::string& name, int cores) {
            return allocation_of(take(unlocked([&] { return cluster.resize(name, cores); })));
          },
          py::arg("name"), py::arg("cores"))
      .def(
          "release",
          [](const Cluster& cluster, const std::string& name) {
            check(unlocked([&] { return cluster.release(name); }));
          },
          py::arg("name"))
      .def_property_readonly("allocations", [](const Cluster& cluster) {
        py::list list;
        for (const ClusterAllocation& one : take(unlocked([&] { return cluster.allocations(); }))) {
          list.append(allocation_of(one));
        }
        return list;
      });
}

}  // namespace tessera::python
