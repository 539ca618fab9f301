#include "tools/report/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "accuracy/accuracy_study.h"
#include "report/format_study.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using accuracy::AccuracyStudy;
using accuracy::LayerError;
using accuracy::Remedy;

constexpr std::size_t kLayersShown = 20;

nlohmann::json layer_json(const LayerError& layer) {
  nlohmann::json document = {{"layer", layer.layer},    {"kind", layer.kind},
                             {"tensor", layer.tensor},  {"format", layer.format},
                             {"dims", layer.dims},      {"error", layer.error},
                             {"own_error", layer.own},  {"operand_error", layer.operands},
                             {"growth", layer.growth()}};
  return document;
}

nlohmann::json remedies_json(const std::vector<Remedy>& remedies) {
  nlohmann::json list = nlohmann::json::array();
  for (const Remedy& remedy : remedies) {
    nlohmann::json row = {{"change", remedy.change}, {"cosine", remedy.cosine}};
    if (!remedy.layer.empty()) row["layer"] = remedy.layer;
    list.push_back(std::move(row));
  }
  return list;
}

// The layers that make most error themselves, and those behind which it is largest, in the network's order.
std::vector<const LayerError*> worst_layers(const AccuracyStudy& study) {
  std::vector<const LayerError*> layers;
  for (const LayerError& layer : study.layers) layers.push_back(&layer);
  std::stable_sort(layers.begin(), layers.end(), [](const auto* a, const auto* b) {
    return std::max(a->own, a->error - a->operands) > std::max(b->own, b->error - b->operands);
  });
  layers.resize(std::min(layers.size(), kLayersShown));
  std::sort(layers.begin(), layers.end());
  return layers;
}

std::string layers_text(const AccuracyStudy& study) {
  TextTable table({"layer", "output", "format", "own error", "operands", "error", "growth"});
  for (const LayerError* layer : worst_layers(study)) {
    table.add({layer->layer, dims_text(layer->dims), layer->format,
               fmt::format("{:.2e}", layer->own), fmt::format("{:.2e}", layer->operands),
               fmt::format("{:.2e}", layer->error),
               layer->operands > 0 ? fmt::format("{:.2f}", layer->growth()) : "-"});
  }
  return table.text(100);
}

std::string remedies_text(const AccuracyStudy& study) {
  TextTable table({"what", "layer", "1 - cosine", "cosine"});
  const auto add = [&](const std::string& what, const std::string& layer, double cosine) {
    table.add({what, layer, fmt::format("{:.2e}", 1 - cosine), fmt::format("{:.7f}", cosine)});
  };
  add("as compiled", "", study.cosine);
  for (const Remedy& remedy : study.of_all) add(remedy.change, "all", remedy.cosine);
  std::vector<Remedy> best = study.of_layers;
  std::stable_sort(best.begin(), best.end(),
                   [](const Remedy& a, const Remedy& b) { return a.cosine > b.cosine; });
  for (const Remedy& remedy : best) add(remedy.change, remedy.layer, remedy.cosine);
  return table.text(100);
}

std::string ranges_text(const AccuracyStudy& study) {
  if (study.out_of_range.empty()) return "";
  constexpr std::size_t kShown = 6;
  const std::size_t shown = std::min(kShown, study.out_of_range.size());
  return fmt::format(
      "\n{} value(s) leave half of the vector format's range in float32: {}{}\n"
      "`--format auto` makes them f32.\n",
      study.out_of_range.size(),
      fmt::join(study.out_of_range.begin(),
                study.out_of_range.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < study.out_of_range.size() ? ", ..." : "");
}

}  // namespace

Status accuracy_report(const ModelArguments& model, const FormatReportArguments& arguments,
                       const std::string& html, FileRoles roles) {
  if (!html.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--accuracy writes no page; --json has every layer, --formats has a page"};
  }
  TESSERA_TRY(LoadOptions load, model.load_options());
  TESSERA_TRY(const auto inputs, report::study_inputs(model.model, load));
  FormatCases cases{.inputs = {}, .threads = arguments.threads};
  TESSERA_TRY(cases.inputs, read_cases(arguments.cases, inputs, roles));
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(
      const AccuracyStudy study,
      accuracy::accuracy_study(model.model, load, cases, {.layers_tried = arguments.layers}));
  if (model.json) {
    nlohmann::json layers = nlohmann::json::array();
    for (const LayerError& layer : study.layers) layers.push_back(layer_json(layer));
    show_lines(json_text({{"model", model.model},
                          {"arch", model.architecture()},
                          {"cases", study.cases},
                          {"cosine", study.cosine},
                          {"out_of_range", study.out_of_range},
                          {"layers", std::move(layers)},
                          {"changes_of_all_layers", remedies_json(study.of_all)},
                          {"changes_of_layers", remedies_json(study.of_layers)}}) +
               "\n");
    return {};
  }
  show_lines(
      fmt::format("{}\nerrors: of a layer's results against float32's, root of the mean squares "
                  "over theirs; own: from\n"
                  "operands that float32 made; operands: the largest error among them; growth: "
                  "error over that\n"
                  "\n{}\ncosine of the output that has the smallest, over {} case(s), with a "
                  "change of one layer or all\n{}",
                  layers_text(study), remedies_text(study), study.cases, ranges_text(study)));
  return {};
}

}  // namespace tessera::tools
