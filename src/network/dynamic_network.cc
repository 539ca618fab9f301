#include "tessera/dynamic_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <list>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "arch/architecture_file.h"
#include "base/guarded.h"
#include "model/evaluate.h"
#include "model/given_inputs.h"
#include "model/import.h"
#include "model/infer.h"
#include "network/dynamic_state.h"
#include "network/firmware_file.h"
#include "network/network.h"
#include "network/package_cache.h"
#include "network/shape_buckets.h"
#include "package/container.h"
#include "package/elsewhere.h"
#include "package/sha256.h"
#include "tessera/file.h"

namespace tessera {
namespace {

Error invalid(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

std::string dims_of(const Shape& dims) {
  std::string text;
  for (const std::int64_t extent : dims) {
    text += (text.empty() ? "" : "x") + (extent < 0 ? "?" : std::to_string(extent));
  }
  return text.empty() ? "scalar" : text;
}

std::string bytes_text(const Tensor& tensor) {
  return fmt::format("{}:{}:{}", format_name(tensor.format), dims_of(tensor.dims),
                     package::sha256_text(package::sha256(std::span(tensor.bytes))));
}

// What of the options is in a package.
std::string options_text(const LoadOptions& options) {
  std::string text =
      fmt::format("{} {} {} {} {}", options.tile_budget_bytes, options.resident,
                  options.compress_weights, options.require_full_offload, options.region_share);
  for (const auto& [name, shape] : options.shapes)
    text += fmt::format("\n{}={}", name, dims_of(shape));
  for (const auto& [layer, bits] : options.layer_formats.mantissa_bits)
    text += fmt::format("\n{}:{}", layer, bits);
  for (const std::string& name : options.layer_formats.wide) text += fmt::format("\nwide {}", name);
  for (const std::string& name : options.given) text += fmt::format("\ngiven {}", name);
  for (const auto& [name, length] : options.lengths) text += fmt::format("\n{}[{}]", name, length);
  for (const auto* tensors : {&options.constants, &options.weights}) {
    for (const auto& [name, tensor] : *tensors)
      text += fmt::format("\n{}={}", name, bytes_text(tensor));
  }
  return text;
}

}  // namespace

Status DynamicNetworkState::check(const std::vector<Tensor>& given) const {
  if (given.size() != inputs.size()) {
    return invalid(fmt::format("{} inputs, the model has {}", given.size(), inputs.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const DeclaredShape& input = inputs[i];
    const Tensor& tensor = given[i];
    bool fits = tensor.format == input.format &&
                (!input.has_shape || tensor.dims.size() == input.dims.size());
    for (std::size_t axis = 0; fits && input.has_shape && axis < input.dims.size(); ++axis) {
      fits = input.dims[axis] < 0 || input.dims[axis] == tensor.dims[axis];
    }
    if (!fits) {
      return invalid(fmt::format("input '{}': found {} {}, the model takes {} {}", input.name,
                                 format_name(tensor.format), dims_of(tensor.dims),
                                 format_name(input.format), dims_of(input.dims)));
    }
    const auto range = options.ranges.find(input.name);
    if (range == options.ranges.end()) continue;
    for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis) {
      const auto [least, most] = range->second[axis];
      if (least <= tensor.dims[axis] && tensor.dims[axis] <= most) continue;
      return invalid(
          fmt::format("input '{}': dimension {} is {}, allowed by the options are {} to {}",
                      input.name, axis, tensor.dims[axis], least, most));
    }
  }
  return {};
}

Result<std::vector<Tensor>> DynamicNetworkState::in_buckets(std::vector<Tensor> given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto sizes = options.buckets.find(inputs[i].name);
    if (sizes == options.buckets.end()) continue;
    TESSERA_TRY(const Shape dims, network::bucket_of(inputs[i].name, sizes->second, given[i].dims));
    given[i] = network::padded(given[i], dims);
  }
  return given;
}

// With `mutex` held.
std::string DynamicNetworkState::key_of(const std::vector<Tensor>& given) {
  std::string key;
  for (std::size_t i = 0; i < given.size(); ++i) {
    key += dims_of(given[i].dims) + ";";
    if (!deciding.contains(inputs[i].name)) continue;
    key.append(reinterpret_cast<const char*>(given[i].bytes.data()), given[i].bytes.size());
  }
  return key;
}

// With `mutex` held.
std::shared_ptr<DynamicNetworkState::Slot> DynamicNetworkState::slot_of(const std::string& key) {
  const auto found =
      std::ranges::find_if(slots, [&key](const auto& slot) { return slot->key == key; });
  if (found != slots.end()) {
    slots.splice(slots.begin(), slots, found);
    return slots.front();
  }
  slots.push_front(std::make_shared<Slot>());
  slots.front()->key = key;
  while (std::ssize(slots) > options.networks_max) slots.pop_back();
  return slots.front();
}

void DynamicNetworkState::forget(const std::shared_ptr<Slot>& slot) {
  const std::lock_guard lock(mutex);
  slots.remove(slot);
}

std::optional<Network> DynamicNetworkState::kept_for(const std::vector<Tensor>& given) {
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find_if(
      slots, [key = key_of(given)](const auto& slot) { return slot->key == key; });
  if (found == slots.end()) return std::nullopt;
  const std::unique_lock making((*found)->making, std::try_to_lock);
  if (!making.owns_lock() || (*found)->network == nullptr) return std::nullopt;
  ++counters.kept;
  Network network((*found)->network);
  slots.splice(slots.begin(), slots, found);
  return network;
}

Result<DynamicNetworkState::Made> DynamicNetworkState::made_for(const std::vector<Tensor>& given) {
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex);
    slot = slot_of(key_of(given));
  }
  const std::lock_guard making(slot->making);
  if (slot->network != nullptr) {
    const std::lock_guard lock(mutex);
    ++counters.kept;
    return Made{Network(slot->network), std::nullopt};
  }
  if (slot->stop) return Made{std::nullopt, slot->stop};
  auto made = make(given);
  if (!made.ok()) {
    forget(slot);
    return made.error();
  }
  if (made->network) slot->network = made->network->share();
  slot->stop = made->stop;
  // What decides may have been found just now.
  const std::lock_guard lock(mutex);
  slot->key = key_of(given);
  return made;
}

LoadOptions DynamicNetworkState::options_for(const std::vector<Tensor>& given) {
  LoadOptions load = options.load;
  load.open_shape = {};
  const std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (deciding.contains(inputs[i].name)) {
      load.constants[inputs[i].name] = given[i];
    } else {
      load.shapes[inputs[i].name] = given[i].dims;
    }
  }
  return load;
}

// The graph, or the node that data decides where that is why there is none.
DynamicNetworkState::Attempt DynamicNetworkState::attempt(const LoadOptions& load) {
  model::InferOptions infer = network::infer_options(load);
  {
    const std::lock_guard lock(mutex);
    for (const std::string& loop : long_loops) infer.iterations_max[loop] = network::kWrittenOutMax;
  }
  if (!infer.iterations_max.empty()) {
    if (const auto node = model::node_that_data_decides(model, infer)) {
      return {model::infer(model, infer).error(), node};
    }
  }
  auto graph = network::graph_of_model(model, chip, load);
  if (graph.ok()) return {std::move(graph), std::nullopt};
  return {graph.error(), model::node_that_data_decides(model, infer)};
}

// Of the inputs that compiling failed for, those that may decide have their values from now on. Whether there was one.
bool DynamicNetworkState::bind(const std::vector<Tensor>& given, LoadOptions& load) {
  std::map<std::string, const Tensor*> candidates;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (network::may_decide(given[i])) candidates[inputs[i].name] = &given[i];
  }
  const std::vector<std::string> bound = network::bind_deciding(model, candidates, load);
  const std::lock_guard lock(mutex);
  deciding.insert(bound.begin(), bound.end());
  return !bound.empty();
}

std::string DynamicNetworkState::digest_of(const LoadOptions& load) const {
  const std::string text = digest + "\n" + options_text(load);
  return package::sha256_text(package::sha256(std::as_bytes(std::span(text))));
}

// From the folder; nothing where it is not there.
std::optional<Network> DynamicNetworkState::load_kept(const LoadOptions& load) {
  auto package = cache.find(digest_of(load));
  if (!package) return std::nullopt;
  auto network = network::network_from_package(std::move(*package), chip);
  if (!network.ok()) return std::nullopt;
  const std::lock_guard lock(mutex);
  ++counters.loaded;
  return std::move(*network);
}

Result<DynamicNetworkState::Made> DynamicNetworkState::make(const std::vector<Tensor>& given) {
  LoadOptions load = options_for(given);
  if (auto kept = load_kept(load)) return Made{std::move(kept), std::nullopt};
  Attempt tried = attempt(load);
  if (tried.node && model.graph.nodes[*tried.node].op_type == "Loop") {
    const std::lock_guard lock(mutex);
    long_loops.insert(model.graph.nodes[*tried.node].name);
  }
  if (!tried.graph.ok() && bind(given, load)) {
    if (auto kept = load_kept(load)) return Made{std::move(kept), std::nullopt};
    tried = attempt(load);
  }
  if (!tried.graph.ok()) {
    Error error = tried.graph.error().with_context("compiling '" + path + "'");
    if (!tried.node || load.require_full_offload) return error;
    return Made{std::nullopt, Stop{*tried.node, std::move(error)}};
  }
  auto network = network::network_from_graph(std::move(*tried.graph), chip, load);
  if (!network.ok()) return network.error().with_context("compiling '" + path + "'");
  TESSERA_RETURN_IF_ERROR(cache.put(digest_of(load), network->state().package));
  const std::lock_guard lock(mutex);
  ++counters.compiled;
  return Made{std::move(*network), std::nullopt};
}

namespace {

// Products are what a processor is for; a piece that has one is compiled for each shape that comes.
bool is_product(const model::Node& node) {
  constexpr auto kProducts = std::to_array<std::string_view>(
      {"Attention", "Conv", "ConvInteger", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM",
       "MatMul", "MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN"});
  return node.domain.empty() && std::ranges::find(kProducts, node.op_type) != kProducts.end();
}

bool goes_by_definition(const model::Subgraph& graph, std::int64_t opset) {
  return std::ranges::all_of(graph.nodes, [opset](const model::Node& node) {
    if (node.op_type != "If" && node.op_type != "Loop") {
      return !is_product(node) && model::evaluate_refusal(node, opset).empty();
    }
    return std::ranges::all_of(node.attributes, [opset](const auto& attribute) {
      const auto* body = std::get_if<std::shared_ptr<const model::Subgraph>>(&attribute.second);
      return body == nullptr || goes_by_definition(**body, opset);
    });
  });
}

}  // namespace

Status DynamicNetworkState::take_inputs() {
  for (const model::ValueInfo& input : model.graph.inputs) {
    if (options.load.constants.contains(input.name)) continue;
    if (input.kind != model::ValueKind::kTensor) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("'{}': input '{}' is no tensor; Network::load takes such models",
                               path, input.name)};
    }
    inputs.push_back(network::declared_shape(input));
  }
  return {};
}

Result<DynamicNetwork> DynamicNetworkState::piece(const std::string& name, Place place,
                                                  const std::function<model::Model()>& make) {
  const std::lock_guard lock(mutex);
  if (const auto found = pieces.find(name); found != pieces.end()) return found->second;
  model::Model made = make();
  DynamicOptions how = options;
  how.ranges = {};
  how.buckets = {};
  how.load.shapes = {};
  std::erase_if(how.load.constants, [&made](const auto& constant) {
    return std::ranges::find(made.graph.inputs, constant.first, &model::ValueInfo::name) ==
           made.graph.inputs.end();
  });
  auto state = std::make_shared<DynamicNetworkState>(path, how, chip, std::move(made));
  state->digest = digest + "\n" + name;
  const auto opset = state->model.opsets.find("");
  state->by_definition = place == Place::kByDefinition && opset != state->model.opsets.end() &&
                         goes_by_definition(state->model.graph, opset->second);
  TESSERA_RETURN_IF_ERROR(state->take_inputs());
  TESSERA_RETURN_IF_ERROR(state->cache.open());
  return pieces.emplace(name, DynamicNetwork(std::move(state))).first->second;
}

namespace {

// The model's bytes and those of the files that it names.
Result<std::string> digest_of_files(std::span<const std::byte> bytes, const model::Model& model,
                                    const ChipConfig& chip, const LoadOptions& load) {
  std::string text = package::sha256_text(package::sha256(bytes));
  for (const std::string& file : model.external_files) {
    TESSERA_TRY(const std::vector<std::byte> data, read_file(file));
    text += "\n" + package::sha256_text(package::sha256(std::span(data)));
  }
  return text +
         fmt::format("\n{} {:016x} {}\n", TESSERA_VERSION, fingerprint(chip), options_text(load));
}

Status check_options(const DynamicOptions& options, const std::vector<DeclaredShape>& inputs) {
  if (options.networks_max < 1 || options.cache_bytes_max < 0) {
    return invalid(
        fmt::format("DynamicOptions: {} networks and {} bytes, allowed are 1 or more and 0 or more",
                    options.networks_max, options.cache_bytes_max));
  }
  for (const auto& [name, ranges] : options.ranges) {
    const auto input = std::ranges::find(inputs, name, &DeclaredShape::name);
    if (input == inputs.end()) {
      return invalid(fmt::format("DynamicOptions::ranges: the model has no input '{}'", name));
    }
    if (!input->has_shape || ranges.size() == input->dims.size()) continue;
    return invalid(fmt::format("DynamicOptions::ranges of '{}': {} dimensions, the input has {}",
                               name, ranges.size(), input->dims.size()));
  }
  return network::check_buckets(options.buckets, inputs);
}

}  // namespace

Result<DynamicNetwork> DynamicNetwork::open(const std::string& path,
                                            const DynamicOptions& options) {
  return guarded("opening a model", [&]() -> Result<DynamicNetwork> {
    if (network::is_program_file(path) ||
        package::kind_of_file(path) != package::FileKind::kOther) {
      return invalid(fmt::format(
          "'{}' is compiled already, for shapes that are settled; give the model", path));
    }
    TESSERA_TRY(ChipConfig chip, load_chip_config(options.load.arch));
    TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path));
    TESSERA_TRY(model::Model model, model::import_bytes(bytes, path, package::folder_of(path)));
    model::give_inputs(model, options.load.given);
    TESSERA_TRY(std::string digest, digest_of_files(bytes, model, chip, options.load));
    auto state =
        std::make_shared<DynamicNetworkState>(path, options, std::move(chip), std::move(model));
    state->digest = std::move(digest);
    TESSERA_RETURN_IF_ERROR(state->take_inputs());
    TESSERA_RETURN_IF_ERROR(check_options(options, state->inputs));
    TESSERA_RETURN_IF_ERROR(state->cache.open());
    return DynamicNetwork(std::move(state));
  });
}

const std::vector<DeclaredShape>& DynamicNetwork::inputs() const { return state_->inputs; }

Result<Network> DynamicNetwork::network_for(const std::vector<Tensor>& inputs) const {
  return guarded("compiling a model", [&]() -> Result<Network> {
    TESSERA_RETURN_IF_ERROR(state_->check(inputs));
    TESSERA_TRY(const std::vector<Tensor> in_buckets, state_->in_buckets(inputs));
    TESSERA_TRY(DynamicNetworkState::Made made, state_->made_for(in_buckets));
    if (made.stop) return made.stop->reason;
    return std::move(*made.network);
  });
}

Result<std::vector<Tensor>> DynamicNetwork::inputs_of(const Network& network,
                                                      const std::vector<Tensor>& inputs) const {
  return guarded("giving inputs", [&]() -> Result<std::vector<Tensor>> {
    TESSERA_RETURN_IF_ERROR(state_->check(inputs));
    TESSERA_TRY(std::vector<Tensor> in_buckets, state_->in_buckets(inputs));
    std::vector<Tensor> taken;
    for (const TensorDescription& wanted : network.inputs()) {
      const auto found = std::ranges::find(state_->inputs, wanted.name, &DeclaredShape::name);
      if (found == state_->inputs.end()) {
        return invalid(
            fmt::format("the network's input '{}' is none of '{}'", wanted.name, state_->path));
      }
      taken.push_back(
          std::move(in_buckets[static_cast<std::size_t>(found - state_->inputs.begin())]));
    }
    return taken;
  });
}

std::vector<std::string> DynamicNetwork::output_names() const {
  std::vector<std::string> names;
  for (const model::ValueInfo& output : state_->model.graph.outputs) names.push_back(output.name);
  return names;
}

std::vector<std::string> DynamicNetwork::deciding_inputs() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->deciding.begin(), state_->deciding.end()};
}

DynamicCounters DynamicNetwork::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

}  // namespace tessera
