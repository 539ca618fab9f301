// A graph as text: one line per tensor, one line per node. parse.cc reads it back; docs/passes.md
// shows an example.
//
//   graph "net" f16
//   tensor %0 "x" f32 [1, 3, 8, 8]
//   tensor %2 "w" f16 [4, 3, 3, 3] constant
//   input %0
//   conv "conv1" (%1, %2) -> (%3) stride_h=2 activation=relu(0, 0) from ["conv1", "relu1"]
//   output %3
//
// Fields that have their default value are left out.
#include <fmt/format.h>

#include "arith/microscaling.h"
#include "base/utf8.h"
#include "graph/attribute_fields.h"
#include "graph/graph_text.h"

namespace tessera::graph {

namespace {

// Characters that a terminal would obey as \xNN, a byte each.
std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const std::string bytes = text.substr(at, c.bytes);
    if (bytes == "\"" || bytes == "\\") {
      result += '\\' + bytes;
    } else if (c.visible()) {
      result += bytes;
    } else {
      for (const char byte : bytes) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    at += c.bytes;
  }
  return result + "\"";
}

const char* name_of(MatrixKind kind) {
  switch (kind) {
    case MatrixKind::kBlockFloat:
      return "block_float";
    case MatrixKind::kFloat:
      return "float";
    case MatrixKind::kInteger:
      return "integer";
    case MatrixKind::kMicroscaling:
      return "microscaling";
  }
  return "?";
}

// Values of every field type as text.
template <typename Integer>
  requires std::is_integral_v<Integer>
std::string text(Integer value) {
  if constexpr (std::is_same_v<Integer, bool>) return value ? "true" : "false";
  return std::to_string(value);
}
std::string text(float value) { return fmt::format("{}", value); }
std::string text(const std::string& value) { return in_quotes(value); }
std::string text(MatrixKind value) { return name_of(value); }
std::string text(Format value) { return std::string(format_name(value)); }
std::string text(LongFormat value) { return value == LongFormat::kExact ? "exact" : "q34_40"; }
std::string text(MicroElement value) { return arith::micro_element_name(value); }
std::string text(MicroScale value) { return arith::micro_scale_name(value); }
std::string text(BlockCut value) { return value == BlockCut::kChannel ? "channel" : "im2col"; }
std::string text(PoolFunction value) { return std::string(pool_function_name(value)); }
std::string text(BinaryFunction value) { return std::string(binary_function_name(value)); }
std::string text(ReduceFunction value) { return std::string(reduce_function_name(value)); }
std::string text(const Activation& value) {
  return std::string(unary_function_name(value.function)) + "(" + text(value.alpha) + ", " +
         text(value.beta) + ")";
}
std::string text(const Affine& value) {
  return fmt::format("({}, {})", text(value.scale), text(value.zero_point));
}

template <typename T>
std::string text(const std::vector<T>& values);

std::string text(const CopyBox& box) {
  return fmt::format("({}, {}, {}, {}, {}, {})", text(box.input), text(box.input_offset),
                     text(box.output_offset), text(box.extents), text(box.input_strides),
                     text(box.output_strides));
}

std::string text(const Tensor& tensor) {
  std::string result = std::string(format_name(tensor.format)) + " " + text(tensor.dims) + " \"";
  for (const std::byte byte : tensor.bytes) {
    result += fmt::format("{:02x}", static_cast<unsigned>(byte));
  }
  return result + "\"";
}

std::string text(const std::shared_ptr<const model::Subgraph>& subgraph) {
  return in_quotes(subgraph == nullptr ? "" : subgraph->name);
}

constexpr const char* kAttributeTypes[] = {"int",  "float",  "string",  "tensor",
                                           "ints", "floats", "strings", "subgraph"};

std::string text(const model::Attributes& attributes) {
  std::string result = "{";
  for (const auto& [name, value] : attributes) {
    if (result.size() > 1) result += ", ";
    result += in_quotes(name) + " " + kAttributeTypes[value.index()] + " ";
    result += std::visit([](const auto& held) { return text(held); }, value);
  }
  return result + "}";
}

template <typename T>
std::string text(const std::vector<T>& values) {
  std::string result = "[";
  for (const T& value : values) {
    if (result.size() > 1) result += ", ";
    result += text(value);
  }
  return result + "]";
}

struct Writer {
  std::string line;
  template <typename T>
  void operator()(const char* name, const T& value, const T& otherwise) {
    if constexpr (std::is_same_v<T, model::Attributes>) {
      if (value.empty()) return;
    } else {
      if (value == otherwise) return;
    }
    line += fmt::format(" {}={}", name, text(value));
  }
};

std::string ids(const std::vector<TensorId>& list) {
  std::string result = "(";
  for (const TensorId id : list) {
    if (result.size() > 1) result += ", ";
    result += fmt::format("%{}", id.value);
  }
  return result + ")";
}

std::string node_line(const Node& node) {
  Writer writer;
  writer.line = std::string(node_kind_name(node.kind())) + " " + in_quotes(node.name) + " " +
                ids(node.inputs) + " -> " + ids(node.outputs);
  std::visit([&](const auto& attributes) { visit_attributes(writer, attributes); },
             node.attributes);
  return writer.line + " from " + text(node.origins) + "\n";
}

}  // namespace

std::string dump(const Graph& graph) {
  std::string result =
      "graph " + in_quotes(graph.name) + " " + std::string(format_name(graph.vector_format)) + "\n";
  for (const std::string& note : graph.notes) result += "note " + in_quotes(note) + "\n";
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorInfo& tensor = graph.tensors[i];
    result += "tensor %" + std::to_string(i) + " " + in_quotes(tensor.name) + " " +
              std::string(format_name(tensor.format)) + " " + text(tensor.dims) +
              (tensor.dense_dims.empty() ? "" : " blocks_of " + text(tensor.dense_dims)) +
              (tensor.constant != nullptr ? " constant\n" : "\n");
  }
  for (const TensorId id : graph.inputs) result += "input %" + std::to_string(id.value) + "\n";
  for (const Node& node : graph.nodes) result += node_line(node);
  for (const TensorId id : graph.outputs) result += "output %" + std::to_string(id.value) + "\n";
  return result;
}

}  // namespace tessera::graph
