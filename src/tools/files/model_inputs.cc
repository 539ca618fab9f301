#include "tools/files/model_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "arith/format.h"
#include "arith/rounding.h"
#include "model/given_inputs.h"
#include "model/import.h"
#include "network/network.h"
#include "tessera/picture.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

bool has_ending(std::string_view source, std::initializer_list<const char*> endings) {
  return std::ranges::any_of(endings, [source](const char* end) { return source.ends_with(end); });
}
bool is_tensor_file(std::string_view source) { return has_ending(source, {".npy", ".pb"}); }
bool is_picture(std::string_view source) { return has_ending(source, {".png", ".jpg", ".jpeg"}); }

Result<Tensor> read_tensor(const std::string& source) {
  return source.ends_with(".pb") ? model::import_tensor_file(source) : read_npy(source);
}

// The source of the input, if a text names one.
std::optional<std::string> source_of(const std::string& name,
                                     const std::vector<std::string>& inputs) {
  for (const std::string& text : inputs) {
    if (text.starts_with(name + "=")) return text.substr(name.size() + 1);
  }
  if (inputs.size() == 1 && inputs[0].find('=') == std::string::npos) return inputs[0];
  return std::nullopt;
}

std::int64_t in_proportion(std::int64_t fixed, std::int64_t of, std::int64_t other) {
  const double length =
      static_cast<double>(other) * static_cast<double>(fixed) / static_cast<double>(of);
  return std::max<std::int64_t>(1, std::llround(length));
}

std::optional<Shape> shape_of_picture(const std::string& source, const Shape& dims) {
  if (dims.size() != 4) return std::nullopt;
  const auto picture = read_picture(source);
  if (!picture.ok()) return std::nullopt;
  const bool channels_last = dims[3] == 3 && dims[1] != 3;
  const std::int64_t declared_height = dims[channels_last ? 1 : 2];
  const std::int64_t declared_width = dims[channels_last ? 2 : 3];
  std::int64_t height = declared_height, width = declared_width;
  if (height < 0) {
    height = width < 0 ? picture->height : in_proportion(width, picture->width, picture->height);
  }
  if (width < 0) {
    width = declared_height < 0 ? picture->width
                                : in_proportion(height, picture->height, picture->width);
  }
  return channels_last ? Shape{1, height, width, 3} : Shape{1, 3, height, width};
}

Error bad_constant(const DeclaredShape& input, const std::string& value, const std::string& why) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("--constant {}={}: {}; the input takes {} {}: give numbers with commas "
                      "between, true or false, or a file (.npy, .pb)",
                      input.name, value, why, format_name(input.format), dims_text(input.dims))};
}

// The declared shape with so many elements.
std::optional<Shape> shape_of_values(const DeclaredShape& input, std::int64_t count) {
  if (!input.has_shape) return count == 1 ? Shape{} : Shape{count};
  Shape shape = input.dims;
  std::int64_t fixed = 1, open = 0;
  for (const std::int64_t extent : shape) extent < 0 ? ++open : fixed *= extent;
  std::int64_t rest = fixed == 0 ? 0 : count / fixed;
  for (std::int64_t& extent : shape) {
    if (extent < 0) extent = std::exchange(rest, 1);
  }
  const bool is_settled = open <= 1 || count == 1;
  if (!is_settled || element_count(shape) != count) return std::nullopt;
  return shape;
}

// The value of a number, or of true and false; nothing where the text is none that the format has.
std::optional<double> number_of(std::string_view text, Format format) {
  if (text == "true" || text == "false") return text == "true" ? 1 : 0;
  double number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  if (!format_is_float(format) && number != std::trunc(number)) return std::nullopt;
  return number;
}

// By name: those of the texts that name a file of a value that may decide, with the text.
std::map<std::string, std::pair<std::string, Tensor>> small_tensors(
    const std::vector<std::string>& inputs) {
  std::map<std::string, std::pair<std::string, Tensor>> small;
  for (const std::string& text : inputs) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string::npos || !is_tensor_file(text)) continue;
    auto tensor = read_tensor(text.substr(equals + 1));
    if (tensor.ok() && network::may_decide(*tensor)) {
      small.emplace(text.substr(0, equals), std::pair(text, std::move(*tensor)));
    }
  }
  return small;
}

}  // namespace

std::function<std::optional<Shape>(const DeclaredShape&)> shapes_of_files(
    std::vector<std::string> inputs) {
  return [inputs = std::move(inputs)](const DeclaredShape& input) -> std::optional<Shape> {
    const std::optional<std::string> source = source_of(input.name, inputs);
    if (!source) return std::nullopt;
    if (is_picture(*source)) return shape_of_picture(*source, input.dims);
    if (!is_tensor_file(*source)) return std::nullopt;
    auto tensor = read_tensor(*source);
    if (!tensor.ok()) return std::nullopt;
    return std::move(tensor->dims);
  };
}

std::set<std::string> names_of(const std::vector<std::string>& inputs) {
  std::set<std::string> names;
  for (const std::string& text : inputs) {
    for (std::size_t end = text.find('='); end != std::string::npos;
         end = text.find('=', end + 1)) {
      names.insert(text.substr(0, end));
    }
  }
  return names;
}

std::vector<std::string> take_deciding(const std::string& model,
                                       const std::function<Result<LoadOptions>()>& options,
                                       std::vector<std::string>& inputs,
                                       std::vector<std::string>& constants) {
  const auto small = small_tensors(inputs);
  if (small.empty()) return {};
  auto imported = model::import_file(model);
  auto bound = options();
  if (!imported.ok() || !bound.ok()) return {};
  model::give_inputs(*imported, bound->given);
  std::map<std::string, const Tensor*> candidates;
  for (const auto& [name, one] : small) candidates[name] = &one.second;
  const LoadOptions unbound = *bound;
  std::vector<std::string> taken = network::bind_deciding(*imported, candidates, *bound);
  if (network::is_long_loop(*imported, unbound, *bound)) return {};
  for (const std::string& name : taken) {
    const std::string& text = small.at(name).first;
    std::erase(inputs, text);
    constants.push_back(text);
  }
  return taken;
}

Result<Tensor> parse_constant(const std::string& value, const DeclaredShape& input) {
  if (is_tensor_file(value)) return read_tensor(value);
  std::vector<double> numbers;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find(',', at), value.size());
    const std::string part = value.substr(at, end - at);
    const auto number = number_of(part, input.format);
    if (!number) return bad_constant(input, value, fmt::format("'{}' is none of its values", part));
    numbers.push_back(*number);
    at = end + 1;
  }
  const auto shape = shape_of_values(input, std::ssize(numbers));
  if (!shape) {
    return bad_constant(input, value, fmt::format("{} values do not fill it", numbers.size()));
  }
  Tensor tensor = Tensor::zeros(input.format, *shape);
  const std::int64_t element = format_bytes(input.format);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::byte* const place = tensor.bytes.data() + static_cast<std::int64_t>(i) * element;
    arith::write_element(input.format, numbers[i], place);
    if (!format_is_float(input.format) && arith::read_element(input.format, place) != numbers[i]) {
      return bad_constant(input, value, fmt::format("{} is out of range", numbers[i]));
    }
  }
  return tensor;
}

Result<std::map<std::string, Tensor>> parse_constants(const std::string& model,
                                                      const std::vector<std::string>& texts) {
  std::map<std::string, Tensor> constants;
  if (texts.empty()) return constants;
  TESSERA_TRY(const DeclaredShapes declared, Network::declared_shapes(model));
  std::string names;
  for (const DeclaredShape& input : declared.inputs) {
    names += (names.empty() ? "" : ", ") + input.name;
  }
  for (const std::string& text : texts) {
    const auto input = std::ranges::find_if(declared.inputs, [&text](const DeclaredShape& one) {
      return text.starts_with(one.name + "=");
    });
    if (input == declared.inputs.end()) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("--constant '{}': expected NAME=VALUE, the inputs are: {}", text, names)};
    }
    TESSERA_TRY(Tensor tensor, parse_constant(text.substr(input->name.size() + 1), *input));
    if (!constants.emplace(input->name, std::move(tensor)).second) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("--constant '{}': this input is given twice", text)};
    }
  }
  return constants;
}

}  // namespace tessera::tools
