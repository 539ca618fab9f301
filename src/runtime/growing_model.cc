#include "runtime/growing_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "arch/architecture_file.h"
#include "model/import.h"
#include "network/network.h"
#include "package/elsewhere.h"
#include "runtime/check_inputs.h"
#include "runtime/tensor_bytes.h"
#include "tessera/file.h"

namespace tessera::runtime {
namespace {

constexpr std::int64_t kRowsMax = std::int64_t{1} << 20;
constexpr std::int64_t kRowAlignment = 16;  // bytes

Error wrong_growing(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

Status check_growing(const GrowingOptions& growing) {
  if (growing.states.empty()) {
    return wrong_growing("GrowingOptions::states: none; name at least one");
  }
  if (growing.rows_max < 1 || growing.rows_max > kRowsMax || growing.capacity_min < 1) {
    return wrong_growing(
        fmt::format("GrowingOptions: {} rows, the first network for {}; allowed are 1 "
                    "to {}, and 1 or more",
                    growing.rows_max, growing.capacity_min, kRowsMax));
  }
  return {};
}

}  // namespace

Result<GrowingModel> GrowingModel::open(const std::string& path, const GrowingOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_growing(options));
  GrowingModel opened;
  opened.path_ = path;
  opened.options_ = options;
  TESSERA_TRY(opened.chip_, load_chip_config(options.load.arch));
  TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path));
  TESSERA_TRY(opened.model_, model::import_bytes(bytes, path, package::folder_of(path)));
  for (const GrowingState& state : options.states) {
    opened.states_.push_back({state.input, state.output});
  }
  const auto grown = model::grow_states(opened.model_, opened.states_, options.rows_max);
  if (!grown.ok()) return grown.error().with_context("'" + path + "'");
  for (const model::ValueInfo& input : opened.model_.graph.inputs) {
    const bool is_state = std::ranges::any_of(
        opened.states_, [&](const model::StateNames& name) { return name.input == input.name; });
    if (is_state || options.load.constants.contains(input.name)) continue;
    opened.inputs_.push_back(network::declared_shape(input));
  }
  for (const model::ValueInfo& output : opened.model_.graph.outputs) {
    const bool is_state = opened.output_place(output.name).kind == GrowingPlace::Kind::kState;
    if (!is_state) opened.outputs_.push_back(output.name);
  }
  return opened;
}

std::int64_t GrowingModel::capacity_for(std::int64_t rows) const {
  if (rows >= options_.rows_max) return 0;
  std::int64_t capacity = options_.capacity_min;
  while (capacity <= rows) capacity *= 2;
  return std::min(capacity, options_.rows_max);
}

Result<Network> GrowingModel::compile(std::int64_t capacity,
                                      const std::vector<Tensor>& given) const {
  const auto make = [&]() -> Result<Network> {
    TESSERA_TRY(const model::Model grown, model::grow_states(model_, states_, capacity));
    LoadOptions load = options_.load;
    for (std::size_t i = 0; i < given.size(); ++i) load.shapes[inputs_[i].name] = given[i].dims;
    TESSERA_TRY(auto graph, network::graph_of_model(grown, chip_, load));
    return network::network_from_graph(std::move(graph), chip_, load, network::Edges::kDense);
  };
  auto network = make();
  if (!network.ok()) return network.error().with_context("compiling '" + path_ + "'");
  return network;
}

Status GrowingModel::check_given(const std::vector<Tensor>& given) const {
  if (given.size() != inputs_.size()) {
    return wrong_growing(fmt::format("{} inputs, the model takes {} beside its states",
                                     given.size(), inputs_.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].format == inputs_[i].format) continue;
    return wrong_growing(fmt::format("input '{}': found {}, the model takes {}", inputs_[i].name,
                                     format_name(given[i].format), format_name(inputs_[i].format)));
  }
  return {};
}

Status GrowingModel::check_shapes(const Network& network, std::int64_t capacity,
                                  const std::vector<Tensor>& given) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto input =
        std::ranges::find(network.inputs(), inputs_[i].name, &TensorDescription::name);
    if (input == network.inputs().end() || input->dims == given[i].dims) continue;
    return wrong_growing(fmt::format(
        "input '{}': given {}, for a capacity of {} rows it is {}", inputs_[i].name,
        description_text(given[i].format, given[i].dims), capacity, description_text(*input)));
  }
  return {};
}

GrowingPlace GrowingModel::input_place(const std::string& name) const {
  if (name == model::kNewRowInput) return {GrowingPlace::Kind::kNewRow, 0};
  const auto state = std::ranges::find(states_, name, &model::StateNames::input);
  if (state != states_.end()) {
    return {GrowingPlace::Kind::kState, static_cast<std::size_t>(state - states_.begin())};
  }
  const auto input = std::ranges::find(inputs_, name, &DeclaredShape::name);
  return {GrowingPlace::Kind::kCaller, static_cast<std::size_t>(input - inputs_.begin())};
}

GrowingPlace GrowingModel::output_place(const std::string& name) const {
  const auto state = std::ranges::find(states_, name, &model::StateNames::output);
  if (state == states_.end()) return {};
  return {GrowingPlace::Kind::kState, static_cast<std::size_t>(state - states_.begin())};
}

Result<TensorDescription> GrowingModel::row_of(const Network& network, std::size_t state) const {
  const auto& [from, to] = states_[state];
  const auto output = std::ranges::find(network.outputs(), to, &TensorDescription::name);
  const auto input = std::ranges::find(network.inputs(), from, &TensorDescription::name);
  if (output == network.outputs().end() || input == network.inputs().end() ||
      output->format != input->format || output->dims[0] != 1 ||
      !std::equal(output->dims.begin() + 1, output->dims.end(), input->dims.begin() + 1,
                  input->dims.end())) {
    return wrong_growing(
        fmt::format("state '{}' -> '{}': a run makes no single row of the state's "
                    "shape; give it one token",
                    from, to));
  }
  const Bytes row = tensor_bytes(*output);
  if (row.value % kRowAlignment != 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("state '{}': a row has {} bytes, rows begin at multiples of {}", from,
                             row.value, kRowAlignment)};
  }
  return *output;
}

Tensor new_row_input(std::int64_t capacity, std::int64_t row) {
  Tensor input = Tensor::zeros(Format::kBool, {capacity});
  input.as<std::uint8_t>()[static_cast<std::size_t>(row)] = 1;
  return input;
}

}  // namespace tessera::runtime
