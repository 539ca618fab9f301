#include "model/import.h"

#include <onnx/onnx-data_pb.h>
#include <onnx/onnx_pb.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "model/contrib/expand_contrib.h"
#include "model/import_domain.h"
#include "model/import_function.h"
#include "model/import_graph.h"
#include "model/import_message.h"
#include "model/import_tensor.h"
#include "model/onnx_reader.h"

namespace tessera::model {
namespace {

// What newer IR versions add is optional or an element type that is refused by name.
constexpr std::int64_t kIrVersionMax = 13;
constexpr std::int64_t kOpsetMax = 28;
// Before IR version 3 a model had no opset imports and meant version 1.
constexpr std::int64_t kIrVersionWithOpsets = 3;

// ModelProto.configuration and TensorProto.metadata_props came after the schema we build with;
// neither changes what a model computes.
constexpr auto kModelFieldsIgnored = {26};
constexpr auto kTensorFieldsIgnored = {16};
const ReadOptions kTensorFile = {.bytes_max = ImportLimits().file_bytes_max,
                                 .ignored_fields = kTensorFieldsIgnored};

Result<std::map<std::string, std::int64_t>> import_opsets(const onnx::ModelProto& proto) {
  std::map<std::string, std::int64_t> opsets;
  for (const onnx::OperatorSetIdProto& entry : proto.opset_import()) {
    const std::string domain = import_domain(entry.domain());
    const std::string shown = in_quotes(domain.empty() ? "ai.onnx" : domain);
    if (utf8_prefix(domain) != domain.size()) {
      return invalid_model("the opset domain {} is not UTF-8", shown);
    }
    if (entry.version() < 1) {
      return invalid_model("opset {} of domain {}, allowed is 1 or more", entry.version(), shown);
    }
    if (domain.empty() && entry.version() > kOpsetMax) {
      return unsupported(
          "opset {} of domain {}, allowed are 1 to {}; convert the model to an older "
          "opset",
          entry.version(), shown, kOpsetMax);
    }
    const auto [found, added] = opsets.emplace(domain, entry.version());
    if (!added && found->second != entry.version()) {
      return invalid_model("domain {} is imported twice, as opset {} and {}", shown, found->second,
                           entry.version());
    }
  }
  if (opsets.empty() && proto.ir_version() < kIrVersionWithOpsets) opsets.emplace("", 1);
  if (opsets.empty()) return invalid_model("the model imports no opset");
  return opsets;
}

Status check_version(const onnx::ModelProto& proto) {
  if (!proto.has_ir_version()) {
    return invalid_model("the file states no IR version; is it an ONNX model?");
  }
  if (proto.ir_version() < 1) {
    return invalid_model("IR version {}, allowed are 1 to {}", proto.ir_version(), kIrVersionMax);
  }
  if (proto.ir_version() > kIrVersionMax) {
    return unsupported("IR version {}, allowed are 1 to {}", proto.ir_version(), kIrVersionMax);
  }
  if (!proto.has_graph()) return invalid_model("the model has no graph");
  return {};
}

Result<Model> import_model(onnx::ModelProto& proto, const std::string& name,
                           const std::string& folder, const ImportLimits& limits) {
  TESSERA_RETURN_IF_ERROR(check_version(proto));
  Model model{.path = name,
              .ir_version = proto.ir_version(),
              .opsets = {},
              .graph = {},
              .external_files = {},
              .notes = {}};
  TESSERA_TRY(model.opsets, import_opsets(proto));
  const auto standard = model.opsets.find("");
  if (standard != model.opsets.end() && !limits.contrib_operators) {
    TESSERA_RETURN_IF_ERROR(expand_contrib_operators(proto, standard->second, model.notes));
  }
  TESSERA_RETURN_IF_ERROR(inline_functions(proto, model.opsets, limits));
  GraphImport context(proto.graph(), limits, folder, model.opsets);
  TESSERA_TRY(model.graph, import_graph(*proto.mutable_graph(), context));
  model.external_files.assign(context.tensors.external_files.begin(),
                              context.tensors.external_files.end());
  return model;
}

Result<Tensor> import_lone_tensor(onnx::TensorProto& proto, const std::string& folder) {
  if (proto.has_segment()) {  // field 3, which is where a sequence has its tensors
    return unsupported(
        "the file holds a sequence of tensors or a tensor in segments, which are not supported");
  }
  TensorImport context;
  context.folder = folder;
  return import_tensor(proto, context);
}

Result<std::vector<Tensor>> import_tensors(
    google::protobuf::RepeatedPtrField<onnx::TensorProto>& protos) {
  std::vector<Tensor> tensors;
  TensorImport context;
  for (onnx::TensorProto& proto : protos) {
    TESSERA_TRY(Tensor tensor, import_tensor(proto, context));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<std::vector<Tensor>> import_sequence(onnx::SequenceProto& proto) {
  if (proto.elem_type() != onnx::SequenceProto::TENSOR && proto.elem_type() != 0) {
    return unsupported("a sequence of other values than tensors is not supported");
  }
  return import_tensors(*proto.mutable_tensor_values());
}

Result<std::vector<Tensor>> import_optional(onnx::OptionalProto& proto) {
  if (proto.has_sequence_value()) return import_sequence(*proto.mutable_sequence_value());
  std::vector<Tensor> tensors;
  if (!proto.has_tensor_value()) return tensors;
  TensorImport context;
  TESSERA_TRY(Tensor tensor, import_tensor(*proto.mutable_tensor_value(), context));
  tensors.push_back(std::move(tensor));
  return tensors;
}

Result<std::vector<Tensor>> import_value(const std::string& path, ValueKind kind) {
  const ReadOptions options{.bytes_max = kTensorFile.bytes_max, .ignored_fields = {}};
  if (kind == ValueKind::kSequence) {
    onnx::SequenceProto proto;
    TESSERA_RETURN_IF_ERROR(read_onnx_file(path, options, proto));
    return import_sequence(proto);
  }
  onnx::OptionalProto proto;
  TESSERA_RETURN_IF_ERROR(read_onnx_file(path, options, proto));
  return import_optional(proto);
}

std::string folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return (folder.empty() ? std::filesystem::path(".") : folder).string();
}

Error in_file(const Error& error, const std::string& name) {
  return error.with_context(fmt::format("importing {}", in_quotes(name, name.size())));
}

}  // namespace

Result<Model> import_file(const std::string& path, const ImportLimits& limits) {
  onnx::ModelProto proto;
  const Status status = read_onnx_file(
      path, {.bytes_max = limits.file_bytes_max, .ignored_fields = kModelFieldsIgnored}, proto);
  if (!status.ok()) return in_file(status.error(), path);
  Result<Model> model = import_model(proto, path, folder_of(path), limits);
  if (!model.ok()) return in_file(model.error(), path);
  return model;
}

Result<Model> import_bytes(std::span<const std::byte> bytes, const std::string& name,
                           const std::string& folder, const ImportLimits& limits) {
  onnx::ModelProto proto;
  const Status status = read_onnx_bytes(
      bytes, {.bytes_max = limits.file_bytes_max, .ignored_fields = kModelFieldsIgnored}, proto);
  if (!status.ok()) return in_file(status.error(), name);
  Result<Model> model = import_model(proto, name, folder, limits);
  if (!model.ok()) return in_file(model.error(), name);
  return model;
}

Result<Tensor> import_tensor_file(const std::string& path) {
  onnx::TensorProto proto;
  const Status status = read_onnx_file(path, kTensorFile, proto);
  if (!status.ok()) return in_file(status.error(), path);
  Result<Tensor> tensor = import_lone_tensor(proto, folder_of(path));
  if (!tensor.ok()) return in_file(tensor.error(), path);
  return tensor;
}

Result<std::vector<Tensor>> import_value_file(const std::string& path, ValueKind kind) {
  if (kind == ValueKind::kTensor) {
    TESSERA_TRY(Tensor tensor, import_tensor_file(path));
    std::vector<Tensor> tensors;
    tensors.push_back(std::move(tensor));
    return tensors;
  }
  auto tensors = import_value(path, kind);
  if (!tensors.ok()) return in_file(tensors.error(), path);
  return tensors;
}

Result<Tensor> import_tensor_bytes(std::span<const std::byte> bytes, const std::string& name) {
  onnx::TensorProto proto;
  const Status status = read_onnx_bytes(bytes, kTensorFile, proto);
  if (!status.ok()) return in_file(status.error(), name);
  Result<Tensor> tensor = import_lone_tensor(proto, "");
  if (!tensor.ok()) return in_file(tensor.error(), name);
  return tensor;
}

}  // namespace tessera::model
