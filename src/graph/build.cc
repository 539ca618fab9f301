#include "graph/build.h"

#include <fmt/format.h>

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

Result<Graph> build(const model::Model& model, const BuildOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_options(options));
  TESSERA_TRY(const model::InferredModel inferred, model::infer(model, options.infer));
  TESSERA_TRY(Graph graph, lower(model, inferred, options));
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
    pass.run(graph);
    if (pass.settles_formats) stage = Stage::kFinal;
    TESSERA_RETURN_IF_ERROR(checked(std::string(pass.name)));
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
  return graph;
}

Status verify(const Graph& graph) { return verify_at(graph, Stage::kFinal); }

}  // namespace tessera::graph
