#include "tools/files/automatic_formats.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>

#include "model/given_inputs.h"
#include "model/import.h"
#include "network/first_part.h"
#include "report/format_study.h"
#include "tessera/format_choice.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// Of "auto:0.9995"; nothing of "auto".
Result<std::optional<double>> bound_of(const std::string& format) {
  const std::size_t colon = format.find(':');
  if (colon == std::string::npos) return std::optional<double>();
  double bound = 0;
  const char* const end = format.data() + format.size();
  const auto [last, error] = std::from_chars(format.data() + colon + 1, end, bound);
  if (error == std::errc() && last == end && bound >= 0 && bound < 1) return std::optional(bound);
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("--format '{}': a bound of the outputs' cosine from 0 to below 1 is "
                           "allowed behind the colon, as auto:0.9995",
                           format)};
}

std::string mantissas_text(const LayerFormats& formats) {
  std::map<int, int> counts;
  for (const auto& [layer, bits] : formats.mantissa_bits) ++counts[bits];
  std::string text;
  for (const auto& [bits, count] : counts) {
    text += fmt::format("{}{} product(s) in bfp:{}", text.empty() ? "" : ", ", count, bits);
  }
  return text.empty() ? "products as the architecture says" : text;
}

// Of the model, or of its first part where it runs in parts, which is said.
Result<std::vector<TensorDescription>> inputs_of(const std::string& path, const std::string& format,
                                                 const LoadOptions& load) {
  TESSERA_TRY(model::Model model, model::import_file(path));
  model::give_inputs(model, load.given);
  TESSERA_TRY(const auto part, network::first_part(model, load));
  if (!part) return report::study_inputs(model, load);
  show(stderr,
       "note: --format {}: formats are chosen for the nodes before {}, which data decides; from "
       "there on they are the architecture's\n",
       format, part->decided);
  return report::study_inputs(part->model, load);
}

}  // namespace

bool is_automatic(const std::string& format) {
  return format == "auto" || format.starts_with("auto:");
}

Result<LayerFormats> automatic_formats(const std::string& path, const std::string& format,
                                       const LoadOptions& load, const StudyCases& cases,
                                       bool in_parts, FileRoles& roles) {
  TESSERA_TRY(const std::optional<double> bound, bound_of(format));
  TESSERA_TRY(const auto inputs,
              in_parts ? inputs_of(path, format, load) : report::study_inputs(path, load));
  FormatCases given;
  TESSERA_TRY(given.inputs, read_cases(cases, inputs, roles));
  TESSERA_RETURN_IF_ERROR(roles.check());
  if (cases.inputs.empty()) {
    show(stderr, "note: --format {}: no --input, so formats are chosen on random values\n", format);
  }
  if (!bound) {
    TESSERA_TRY(LayerFormats formats, formats_for_ranges(path, load, given));
    show(stderr, "note: --format auto: {} value(s) in f32, which leave the range of the vectors\n",
         formats.wide.size());
    return formats;
  }
  TESSERA_TRY(FormatChoice choice, choose_formats(path, load, given, *bound));
  show(stderr,
       "note: --format {}: cosine {:.7f} (the architecture's formats: {:.7f}); {}, {} value(s) in "
       "f32; "
       "weights of {} bytes ({}); {} runs\n",
       format, choice.cosine, choice.cosine_before, mantissas_text(choice.formats),
       choice.formats.wide.size(), with_separators(choice.weight_bytes),
       with_separators(choice.weight_bytes_before), choice.runs);
  return std::move(choice.formats);
}

}  // namespace tessera::tools
