// Tenants of a virtual card: their parts, and what they have.
#include "binding.h"

namespace tessera::python {
namespace {

py::dict status_of(const ProcessorStatus& of) {
  py::dict status;
  status["name"] = of.name;
  status["cores"] = of.cores;
  status["groups"] = of.groups;
  status["memory_first"] = of.memory_first;
  status["memory_bytes"] = of.memory_bytes;
  status["weight"] = of.weight;
  status["running"] = of.running;
  status["clearing"] = of.clearing;
  status["networks"] = of.networks;
  status["runs"] = of.runs;
  status["failures"] = of.failures;
  status["last_run_cycles"] = of.last_run_cycles;
  status["last_run_images"] = of.last_run_images;
  status["changes"] = of.changes;
  status["cleared_bytes"] = of.cleared_bytes;
  status["cleared_cycles"] = of.cleared_cycles;
  return status;
}

py::dict status_of_card(const VirtualCard& card) {
  const CardStatus of = unlocked([&] { return card.status(); });
  py::list processors;
  for (const ProcessorStatus& processor : of.processors) processors.append(status_of(processor));
  py::dict status;
  status["arch"] = of.arch;
  status["clock_hertz"] = of.clock_hertz;
  status["cards"] = of.cards;
  status["groups"] = of.groups;
  status["cores_per_group"] = of.cores_per_group;
  status["memory_bytes"] = of.memory_bytes;
  status["cycles"] = of.cycles;
  status["processors"] = processors;
  py::list parts;
  for (const CardPart& part : of.parts) {
    py::dict one;
    one["kind"] = part.kind;
    one["index"] = part.index;
    one["card"] = part.card;
    one["busy_cycles"] = part.busy_cycles;
    one["bytes"] = part.bytes;
    parts.append(one);
  }
  status["parts"] = parts;
  return status;
}

VirtualProcessor take_part(const VirtualCard& card, const std::string& name, int cores,
                           const std::vector<int>& core_numbers, std::int64_t memory_bytes,
                           std::int64_t weight) {
  const VirtualProcessorOptions wanted{.name = name,
                                       .cores = cores,
                                       .core_numbers = core_numbers,
                                       .memory_bytes = memory_bytes,
                                       .weight = weight};
  return take(unlocked([&] { return card.take(wanted); }));
}

}  // namespace

void define_cards(py::module_& module) {
  py::class_<VirtualProcessor>(module, "VirtualProcessor", "A tenant's part of a virtual card.")
      .def_property_readonly("name", [](const VirtualProcessor& of) { return of.name(); })
      .def_property_readonly("status",
                             [](const VirtualProcessor& of) {
                               return status_of(unlocked([&] { return of.status(); }));
                             })
      .def(
          "resize",
          [](const VirtualProcessor& of, int cores) {
            check(unlocked([&] { return of.resize(cores); }));
          },
          py::arg("cores"))
      .def(
          "move",
          [](const VirtualProcessor& of, const std::vector<int>& core_numbers) {
            check(unlocked([&] { return of.move(core_numbers); }));
          },
          py::arg("core_numbers"));
  py::class_<VirtualCard>(module, "VirtualCard",
                          "A card of the virtual processor, or several, that tenants share.")
      .def(py::init([](const std::string& arch, int cards) {
             return take(unlocked([&] { return VirtualCard::open(arch, cards); }));
           }),
           py::arg("arch") = "cloud16", py::arg("cards") = 1)
      .def("take", &take_part, py::kw_only(), py::arg("name") = "", py::arg("cores") = 1,
           py::arg("core_numbers") = std::vector<int>(), py::arg("memory_bytes") = 0,
           py::arg("weight") = 1)
      .def_property_readonly("status", &status_of_card);
}

}  // namespace tessera::python
