// Number formats by accuracy: choose_formats() and formats_for_ranges() as dictionaries, which load() takes.
#include "formats.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "binding.h"
#include "tessera/format_choice.h"

namespace tessera::python {

LayerFormats to_layer_formats(const py::object& given) {
  LayerFormats formats;
  if (given.is_none()) return formats;
  if (!py::isinstance<py::dict>(given)) {
    fail(
        "layer_formats is no dictionary; allowed is what choose_formats() gives, or "
        "{\"mantissa_bits\": "
        "{layer: bits}, \"wide\": [value, ...]}");
  }
  for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(given)) {
    const auto name = key.cast<std::string>();
    if (name == "mantissa_bits") {
      formats.mantissa_bits = value.cast<std::map<std::string, int>>();
    } else if (name == "wide") {
      for (const py::handle& one : value) formats.wide.insert(one.cast<std::string>());
    }
  }
  for (const auto& [layer, bits] : formats.mantissa_bits) {
    if (bits < 2 || bits > 15) {
      fail("layer_formats: " + std::to_string(bits) + " mantissa bits for '" + layer +
           "'; allowed 2 to 15");
    }
  }
  return formats;
}

namespace {

py::dict to_dict(const LayerFormats& formats) {
  py::dict result;
  result["mantissa_bits"] = formats.mantissa_bits;
  result["wide"] = std::vector<std::string>(formats.wide.begin(), formats.wide.end());
  return result;
}

// Cases as lists of arrays, in the order of the network's inputs, or as dictionaries by name.
FormatCases to_cases(const Network& network, const py::iterable& cases, int threads) {
  FormatCases result{.inputs = {}, .threads = threads};
  for (const py::handle& one : cases) {
    const py::object given = py::reinterpret_borrow<py::object>(one);
    const bool alone = py::isinstance<py::dict>(given) || py::isinstance<py::array>(given);
    const py::args arguments = alone ? py::args(py::make_tuple(given)) : py::args(py::tuple(given));
    result.inputs.push_back(ordered_inputs(network.inputs(), arguments));
  }
  return result;
}

py::dict choose(const std::string& path, const py::iterable& cases, std::optional<double> cosine,
                const std::string& arch, const std::map<std::string, Shape>& shapes, int threads) {
  LoadOptions options{.arch = arch, .shapes = shapes};
  const Network network = take(unlocked([&] { return Network::load(path, options); }));
  const FormatCases given = to_cases(network, cases, threads);
  if (!cosine) {
    return to_dict(take(unlocked([&] { return formats_for_ranges(path, options, given); })));
  }
  const FormatChoice choice =
      take(unlocked([&] { return choose_formats(path, options, given, *cosine); }));
  py::dict result = to_dict(choice.formats);
  result["cosine"] = choice.cosine;
  result["cosine_before"] = choice.cosine_before;
  result["weight_bytes"] = choice.weight_bytes;
  result["weight_bytes_before"] = choice.weight_bytes_before;
  return result;
}

}  // namespace

void define_formats(py::module_& module) {
  module.def("choose_formats", &choose, py::arg("path"), py::arg("cases"),
             py::arg("cosine") = py::none(), py::kw_only(), py::arg("arch") = "tessera128",
             py::arg("shapes") = std::map<std::string, Shape>(), py::arg("threads") = 0,
             "Formats by layer for load(): values out of range in float32, and with a bound of the "
             "outputs' cosine the cheapest mantissas that reach it on the cases.");
}

}  // namespace tessera::python
