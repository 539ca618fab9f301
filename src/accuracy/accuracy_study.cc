#include "accuracy/accuracy_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "accuracy/value_ranges.h"

namespace tessera::accuracy {
namespace {

class AccuracySearch {
 public:
  AccuracySearch(Trials& trials, const LoadOptions& load, const StudyOptions& options)
      : trials_(trials), progress_(load.progress), options_(options) {}

  Result<AccuracyStudy> run() {
    AccuracyStudy study;
    study.cases = trials_.cases().inputs.size();
    TESSERA_TRY(const auto graph, trials_.graph({}));
    TESSERA_TRY(study.cosine, trials_.cosine(graph));
    TESSERA_TRY(const auto largest, largest_magnitudes(trials_));
    for (const std::string& name : out_of_range(largest, trials_.chip().formats.vector)) {
      study.out_of_range.push_back(name);
    }
    TESSERA_TRY(study.layers,
                layer_errors(trials_, graph, [&](double share) { report(0.5 * share); }));
    TESSERA_RETURN_IF_ERROR(try_all(*graph, study));
    TESSERA_RETURN_IF_ERROR(try_layers(*graph, study));
    return study;
  }

 private:
  void report(double share) const {
    if (progress_) progress_("accuracy", share);
  }

  Status add(std::vector<Remedy>& remedies, const std::string& layer, const std::string& change,
             const LayerFormats& formats) {
    TESSERA_TRY(auto graph, trials_.graph(formats));
    TESSERA_TRY(const double cosine, trials_.cosine(std::move(graph)));
    remedies.push_back({layer, change, cosine});
    return {};
  }

  bool has_wide() const { return trials_.chip().formats.vector != Format::kF32; }

  Status try_all(const graph::Graph& graph, AccuracyStudy& study) {
    LayerFormats all;
    for (const int bits : {11, 15}) {
      for (const graph::Node& node : graph.nodes) {
        if (!product_format(node).empty()) all.mantissa_bits[node.name] = bits;
      }
      if (all.empty()) break;
      TESSERA_RETURN_IF_ERROR(add(study.of_all, "", fmt::format("products in bfp:{}", bits), all));
    }
    if (!has_wide()) return {};
    LayerFormats wide;
    for (const LayerError& layer : study.layers) wide.wide.insert(layer.tensor);
    TESSERA_RETURN_IF_ERROR(add(study.of_all, "", "values in f32", wide));
    if (all.empty()) return {};
    all.wide = wide.wide;
    return add(study.of_all, "", "products in bfp:15, values in f32", all);
  }

  Status try_layers(const graph::Graph& graph, AccuracyStudy& study) {
    std::vector<const LayerError*> order;
    for (const LayerError& layer : study.layers) order.push_back(&layer);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->own > b->own; });
    const auto tried =
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(order), options_.layers_tried));
    for (std::size_t i = 0; i < tried; ++i) {
      report(0.5 + 0.5 * static_cast<double>(i) / static_cast<double>(tried));
      TESSERA_RETURN_IF_ERROR(try_layer(graph, *order[i], study));
    }
    return {};
  }

  Status try_layer(const graph::Graph& graph, const LayerError& layer, AccuracyStudy& study) {
    const auto node = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [&](const auto& of) { return of.name == layer.layer; });
    LayerFormats formats;
    if (!product_format(*node).empty()) {
      formats.mantissa_bits[layer.layer] = 15;
      TESSERA_RETURN_IF_ERROR(add(study.of_layers, layer.layer, "bfp:15", formats));
    }
    if (!has_wide() || layer.format.starts_with("f32")) return {};
    formats.wide.insert(layer.tensor);
    const std::string change = formats.mantissa_bits.empty() ? "f32" : "bfp:15, f32";
    return add(study.of_layers, layer.layer, change, formats);
  }

  Trials& trials_;
  const ProgressCallback progress_;
  const StudyOptions options_;
};

}  // namespace

Result<AccuracyStudy> accuracy_study(const std::string& path, const LoadOptions& load,
                                     const FormatCases& cases, const StudyOptions& options) {
  TESSERA_TRY(Trials trials, Trials::open(path, load, cases));
  return AccuracySearch(trials, load, options).run();
}

}  // namespace tessera::accuracy
