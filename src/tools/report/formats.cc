#include "tools/report/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/format_page.h"
#include "report/format_study.h"
#include "tools/files/study_cases.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using report::FormatRow;
using report::FormatStudy;

nlohmann::json row_json(const FormatRow& row) {
  nlohmann::json document = {{"format", row.format}};
  if (!row.error.empty()) {
    document["error"] = row.error;
    return document;
  }
  document["cosine"] = row.accuracy.cosine;
  document["max_error"] = row.accuracy.max_error;
  document["largest"] = row.accuracy.largest;
  if (row.accuracy.top1) document["top1_agreement"] = *row.accuracy.top1;
  if (row.accuracy.texts) document["text_agreement"] = *row.accuracy.texts;
  document["weight_bytes"] = row.weight_bytes;
  document["activation_bytes"] = row.activation_bytes;
  if (row.cycles) {
    document["cycles"] = *row.cycles;
  } else {
    document["cycles_error"] = row.cycles_error;
  }
  return document;
}

std::string study_text(const FormatStudy& study) {
  TextTable table(
      {"format", "cosine", "error", "of", "top-1", "texts", "weights", "activations", "cycles"});
  std::string refused;
  const auto share = [](const std::optional<double>& value) {
    return value ? percent(*value) : std::string("-");
  };
  for (const FormatRow& row : study.rows) {
    if (!row.error.empty()) {
      refused += fmt::format("{}: {}\n", row.format, row.error);
      continue;
    }
    if (!row.cycles) refused += fmt::format("{}, cycles: {}\n", row.format, row.cycles_error);
    const report::Accuracy& a = row.accuracy;
    table.add({row.format, fmt::format("{:.7f}", a.cosine), fmt::format("{:.2g}", a.max_error),
               fmt::format("{:.3g}", a.largest), share(a.top1), share(a.texts),
               with_separators(row.weight_bytes), with_separators(row.activation_bytes),
               row.cycles ? with_separators(*row.cycles) : "-"});
  }
  return table.text(100) + refused;
}

}  // namespace

Status format_report(const ModelArguments& model, const FormatReportArguments& arguments,
                     const std::string& html, FileRoles roles) {
  if (!model.format.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--formats tries one format after the other; leave out --format"};
  }
  if (package::kind_of_file(model.model) == package::FileKind::kPackage) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is a package, compiled for one format; give --formats the ONNX "
                             "model",
                             model.model)};
  }
  report::FormatStudyOptions options;
  TESSERA_TRY(options.load, model.load_options());
  options.formats = arguments.formats.empty() ? report::study_formats() : arguments.formats;
  options.texts = arguments.texts;
  options.threads = arguments.threads;
  TESSERA_TRY(const auto inputs, report::study_inputs(model.model, options.load));
  TESSERA_TRY(options.cases, read_cases(arguments.cases, inputs, roles));
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(const FormatStudy study, report::format_study(model.model, options));
  for (const std::string& file : study.external_files) roles.read("the model's data", file);
  TESSERA_RETURN_IF_ERROR(roles.check());
  if (!html.empty()) {
    TESSERA_RETURN_IF_ERROR(report::write_format_page(html, model.model, study));
  }
  if (model.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const FormatRow& row : study.rows) rows.push_back(row_json(row));
    const nlohmann::json document = {{"model", model.model},
                                     {"arch", model.arch},
                                     {"cases", study.cases},
                                     {"notes", study.notes},
                                     {"formats", std::move(rows)}};
    show_lines(json_text(document) + "\n");
    return {};
  }
  show_lines(fmt::format(
      "{}{}\n{} case(s) against float32. cosine: of the output that has the smallest; error: the\n"
      "largest, of a number of at most that magnitude; top-1: rows of the first output with the\n"
      "same best class; texts: the same after repetitions and class 0 are left out (--texts);\n"
      "weights, activations: bytes that the operands of products take in the format.\n",
      notes_text(study.notes), study_text(study), study.cases));
  if (!html.empty()) show("wrote {}\n", html);
  return {};
}

}  // namespace tessera::tools
