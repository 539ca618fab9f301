#include "graph/build.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "graph/lower.h"
#include "graph/passes/passes.h"
#include "graph/verify.h"

namespace tessera::graph {

namespace {

Status check_options(const BuildOptions& options) {
  const Format vector = options.vector_format;
  if (vector != Format::kF16 && vector != Format::kBf16 && vector != Format::kF32) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("vector format is {}; f16, bf16 and f32 are allowed", format_name(vector))};
  }
  if (options.matrix.kind == MatrixKind::kInteger) {
    return Error{
        ErrorCode::kInvalidArgument,
        "matrix format of float products is integer; block float, Microscaling and float are "
        "allowed"};
  }
  if (options.quantise_vector_inputs && options.matrix.kind == MatrixKind::kFloat) {
    return Error{ErrorCode::kInvalidArgument,
                 "vector inputs are to be quantised, but the matrix format of float products is "
                 "float"};
  }
  return {};
}

}  // namespace

namespace {

// What is left of the model's own tensors is copied, so that the graph does not keep all of them.
void own_constants(Graph& graph, const std::shared_ptr<const model::Model>& model) {
  std::map<const Tensor*, std::shared_ptr<const Tensor>> copies;
  for (TensorInfo& info : graph.tensors) {
    const bool of_model = info.constant != nullptr && !info.constant.owner_before(model) &&
                          !model.owner_before(info.constant);
    if (!of_model) continue;
    auto& copy = copies[info.constant.get()];
    if (copy == nullptr) copy = std::make_shared<const Tensor>(*info.constant);
    info.constant = copy;
  }
}

// `owner`: of the model, whose tensors are then shared; or null.
Result<Graph> build_with(const model::Model& model, const BuildOptions& options,
                         const std::shared_ptr<const model::Model>& owner) {
  TESSERA_RETURN_IF_ERROR(check_options(options));
  TESSERA_RETURN_IF_ERROR(watched(options.watch, "infer"));
  model::InferOptions infer = options.infer;
  infer.watch = options.watch;
  Graph graph;
  {
    TESSERA_TRY(const model::InferredModel inferred,
                owner != nullptr ? model::infer_shared(owner, infer) : model::infer(model, infer));
    TESSERA_TRY(graph, lower(model, inferred, options));
  }
  graph.external_files = model.external_files;
  Stage stage = Stage::kDraft;
  const auto checked = [&](const std::string& pass) -> Status {
    if (options.on_pass) options.on_pass(pass, graph);
    const Status status = verify_at(graph, stage);
    if (status.ok()) return {};
    return Error{ErrorCode::kInternal,
                 fmt::format("after pass '{}': {}", pass, status.error().message)};
  };
  TESSERA_RETURN_IF_ERROR(checked("lower"));
  for (const Pass& pass : passes()) {
    TESSERA_RETURN_IF_ERROR(watched(options.watch, pass.name));
    if (pass.run == unshuffle_channels) {
      unshuffle_channels_for(graph, options.quantise_vector_inputs ? 0 : options.lane_elements);
    } else if (pass.run == repeat_pixels) {
      repeat_pixels_for(graph, options.state_buffer);
    } else {
      pass.run(graph);
    }
    if (pass.settles_formats) stage = Stage::kFinal;
    TESSERA_RETURN_IF_ERROR(checked(std::string(pass.name)));
    if (pass.run == widen_scales) {
      std::set<std::string> wide = whole_numbers(graph);
      wide.merge(log_spectra(graph));
      wide.merge(small_floors(graph));
      wide.insert(options.layers.wide.begin(), options.layers.wide.end());
      widen_tensors(graph, wide);
      TESSERA_RETURN_IF_ERROR(checked("widen_tensors"));
    }
  }
  if (options.quantise_vector_inputs) {
    quantise_vector_inputs(graph, options.matrix);
    TESSERA_RETURN_IF_ERROR(checked("quantise_vector_inputs"));
  } else {
    fuse_local_response(graph, options.kernel_memory);
    TESSERA_RETURN_IF_ERROR(checked("fuse_local_response"));
    fuse_gain_bias(graph);
    TESSERA_RETURN_IF_ERROR(checked("fuse_gain_bias"));
  }
  fuse_converters(graph);
  TESSERA_RETURN_IF_ERROR(checked("fuse_converters"));
  arrange_axes(graph);
  TESSERA_RETURN_IF_ERROR(checked("arrange_axes"));
  order_small_nodes(graph);
  TESSERA_RETURN_IF_ERROR(checked("order_small_nodes"));
  set_mantissa_bits(graph, options.layers.mantissa_bits);
  if (owner != nullptr) own_constants(graph, owner);
  return graph;
}

}  // namespace

Result<Graph> build(const model::Model& model, const BuildOptions& options) {
  return build_with(model, options, nullptr);
}

Result<Graph> build(const std::shared_ptr<const model::Model>& model, const BuildOptions& options) {
  return build_with(*model, options, model);
}

Status verify(const Graph& graph) { return verify_at(graph, Stage::kFinal); }

}  // namespace tessera::graph
