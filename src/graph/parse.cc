// Text of dump() -> Graph. Errors name the line and what was expected there. The result is not
// verified; call verify().
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "arith/microscaling.h"
#include "graph/attribute_fields.h"
#include "graph/graph_text.h"

namespace tessera::graph {

namespace {

// One line being read. After the first error everything reads as nothing and the error stays.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  void fail(const std::string& expected) {
    if (failed()) return;
    error_ = fmt::format("expected {}, found '{}'", expected, std::string(rest_.substr(0, 20)));
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (failed() || rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}'", std::string(token)));
  }
  std::string word() {
    skip_spaces();
    std::size_t length = 0;
    while (length < rest_.size() && is_word_character(rest_[length])) ++length;
    if (length == 0) fail("a word");
    const std::string result(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return result;
  }
  std::string string();
  // Everything up to a separator, as a number.
  template <typename Number>
  Number number();

 private:
  static bool is_word_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  }
  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  std::string_view rest_;
  std::string error_;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string LineReader::string() {
  expect("\"");
  std::string result;
  while (!failed()) {
    if (rest_.empty()) {
      fail("the end of a string");
      break;
    }
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '"') break;
    if (c != '\\') {
      result += c;
    } else if (rest_.size() >= 3 && rest_[0] == 'x' && hex_digit(rest_[1]) >= 0 &&
               hex_digit(rest_[2]) >= 0) {
      result += static_cast<char>(hex_digit(rest_[1]) * 16 + hex_digit(rest_[2]));
      rest_.remove_prefix(3);
    } else if (!rest_.empty() && (rest_[0] == '"' || rest_[0] == '\\')) {
      result += rest_[0];
      rest_.remove_prefix(1);
    } else {
      fail("an escape");
    }
  }
  return result;
}

template <typename Number>
Number LineReader::number() {
  skip_spaces();
  Number value{};
  const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  if (code != std::errc()) {
    fail("a number");
    return value;
  }
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  return value;
}

// Readers of every field type, the reverse of dump.cc's text().
template <typename Integer>
  requires std::is_integral_v<Integer>
void read(LineReader& in, Integer& value) {
  if constexpr (std::is_same_v<Integer, bool>) {
    value = in.accept("true");
    if (!value) in.expect("false");
  } else {
    value = in.number<Integer>();
  }
}
void read(LineReader& in, float& value) { value = in.number<float>(); }
void read(LineReader& in, std::string& value) { value = in.string(); }

template <typename Enum, typename Find>
void read_name(LineReader& in, Enum& value, const char* what, Find find) {
  const std::optional<Enum> found = find(in.word());
  if (found) {
    value = *found;
  } else {
    in.fail(what);
  }
}

void read(LineReader& in, MatrixKind& value) {
  read_name(in, value, "a matrix kind", [](const std::string& name) -> std::optional<MatrixKind> {
    if (name == "block_float") return MatrixKind::kBlockFloat;
    if (name == "float") return MatrixKind::kFloat;
    if (name == "integer") return MatrixKind::kInteger;
    if (name == "microscaling") return MatrixKind::kMicroscaling;
    return std::nullopt;
  });
}
void read(LineReader& in, LongFormat& value) {
  read_name(in, value, "a long format", [](const std::string& name) -> std::optional<LongFormat> {
    if (name == "exact") return LongFormat::kExact;
    if (name == "q34_40") return LongFormat::kQ34_40;
    return std::nullopt;
  });
}
void read(LineReader& in, MicroElement& value) {
  read_name(in, value, "an element format", [](const std::string& name) {
    MicroElement element{};
    return arith::micro_element_from_name(name, element) ? std::optional(element) : std::nullopt;
  });
}
void read(LineReader& in, MicroScale& value) {
  read_name(in, value, "a scale mode", [](const std::string& name) -> std::optional<MicroScale> {
    for (const MicroScale mode : {MicroScale::kFloor, MicroScale::kCeil, MicroScale::kEven}) {
      if (name == arith::micro_scale_name(mode)) return mode;
    }
    return std::nullopt;
  });
}
void read(LineReader& in, BlockCut& value) {
  read_name(in, value, "a block cut", [](const std::string& name) -> std::optional<BlockCut> {
    if (name == "channel") return BlockCut::kChannel;
    if (name == "im2col") return BlockCut::kIm2col;
    return std::nullopt;
  });
}
void read(LineReader& in, Format& value) {
  read_name(in, value, "a format", [](const std::string& name) { return format_from_name(name); });
}
void read(LineReader& in, PoolFunction& value) {
  read_name(in, value, "a pool function",
            [](const std::string& name) { return pool_function_from_name(name); });
}
void read(LineReader& in, BinaryFunction& value) {
  read_name(in, value, "a binary function",
            [](const std::string& name) { return binary_function_from_name(name); });
}
void read(LineReader& in, ReduceFunction& value) {
  read_name(in, value, "a reduce function",
            [](const std::string& name) { return reduce_function_from_name(name); });
}
void read(LineReader& in, Activation& value) {
  read_name(in, value.function, "a unary function",
            [](const std::string& name) { return unary_function_from_name(name); });
  in.expect("(");
  read(in, value.alpha);
  in.expect(",");
  read(in, value.beta);
  in.expect(")");
}
void read(LineReader& in, Affine& value) {
  value.enabled = true;
  in.expect("(");
  read(in, value.scale);
  in.expect(",");
  read(in, value.zero_point);
  in.expect(")");
}

template <typename T>
void read(LineReader& in, std::vector<T>& values);

void read(LineReader& in, CopyBox& box) {
  in.expect("(");
  read(in, box.input);
  in.expect(",");
  read(in, box.input_offset);
  in.expect(",");
  read(in, box.output_offset);
  in.expect(",");
  read(in, box.extents);
  in.expect(",");
  read(in, box.input_strides);
  in.expect(",");
  read(in, box.output_strides);
  in.expect(")");
}

void read(LineReader& in, Tensor& tensor) {
  read(in, tensor.format);
  read(in, tensor.dims);
  const std::string digits = in.string();
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    const int high = hex_digit(digits[i]);
    const int low = hex_digit(digits[i + 1]);
    if (high < 0 || low < 0) return in.fail("hexadecimal digits");
    tensor.bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
}

template <typename T>
model::AttributeValue read_as(LineReader& in) {
  T value{};
  read(in, value);
  return value;
}

void read(LineReader& in, model::Attributes& attributes) {
  in.expect("{");
  while (!in.failed() && !in.accept("}")) {
    if (!attributes.empty()) in.expect(",");
    const std::string name = in.string();
    const std::string type = in.word();
    if (type == "int") {
      attributes[name] = read_as<std::int64_t>(in);
    } else if (type == "float") {
      attributes[name] = read_as<float>(in);
    } else if (type == "string") {
      attributes[name] = read_as<std::string>(in);
    } else if (type == "tensor") {
      attributes[name] = read_as<Tensor>(in);
    } else if (type == "ints") {
      attributes[name] = read_as<std::vector<std::int64_t>>(in);
    } else if (type == "floats") {
      attributes[name] = read_as<std::vector<float>>(in);
    } else if (type == "strings") {
      attributes[name] = read_as<std::vector<std::string>>(in);
    } else {
      in.fail("an attribute type that text can hold (a subgraph it cannot)");
    }
  }
}

template <typename T>
void read(LineReader& in, std::vector<T>& values) {
  values.clear();
  in.expect("[");
  while (!in.failed() && !in.accept("]")) {
    if (!values.empty()) in.expect(",");
    T value{};
    read(in, value);
    values.push_back(std::move(value));
  }
}

// Fills the field called `name`; `found`: whether there is one.
struct FieldReader {
  LineReader& in;
  const std::string& name;
  bool found = false;
  template <typename T>
  void operator()(const char* field, T& value, const T&) {
    if (found || name != field) return;
    found = true;
    read(in, value);
  }
};

std::optional<NodeAttributes> attributes_of(const std::string& kind) {
  const NodeAttributes all[] = {ConvAttributes{},        MatMulAttributes{}, PoolAttributes{},
                                ElementwiseAttributes{}, ReduceAttributes{}, MoveAttributes{},
                                HostStepAttributes{}};
  for (const NodeAttributes& attributes : all) {
    if (kind == node_kind_name(static_cast<NodeKind>(attributes.index()))) return attributes;
  }
  return std::nullopt;
}

class Parser {
 public:
  Parser(Graph& graph, const ConstantLookup& constants) : graph_(graph), constants_(constants) {}

  void line(LineReader& in) {
    const std::string keyword = in.word();
    if (keyword == "graph") {
      graph_.name = in.string();
      read(in, graph_.vector_format);
    } else if (keyword == "note") {
      graph_.notes.push_back(in.string());
    } else if (keyword == "tensor") {
      tensor(in);
    } else if (keyword == "input") {
      graph_.inputs.push_back(id(in));
    } else if (keyword == "output") {
      graph_.outputs.push_back(id(in));
    } else if (auto attributes = attributes_of(keyword)) {
      node(in, std::move(*attributes));
    } else {
      in.fail("a keyword or a kind of node");
    }
    if (!in.failed() && !in.at_end()) in.fail("the end of the line");
  }

 private:
  TensorId id(LineReader& in) {
    in.expect("%");
    const TensorId result{in.number<std::int32_t>()};
    if (result.value < 0 || result.value >= static_cast<std::int32_t>(graph_.tensors.size())) {
      in.fail("the number of a tensor above");
    }
    return result;
  }
  std::vector<TensorId> ids(LineReader& in) {
    std::vector<TensorId> result;
    in.expect("(");
    while (!in.failed() && !in.accept(")")) {
      if (!result.empty()) in.expect(",");
      result.push_back(id(in));
    }
    return result;
  }
  void tensor(LineReader& in) {
    TensorInfo info;
    in.expect("%");
    if (in.number<std::int64_t>() != static_cast<std::int64_t>(graph_.tensors.size())) {
      in.fail("tensors in rising order");
    }
    info.name = in.string();
    read(in, info.format);
    read(in, info.dims);
    if (in.accept("blocks_of")) read(in, info.dense_dims);
    if (in.accept("constant")) {
      info.constant = constants_ ? constants_(info.name) : nullptr;
      if (info.constant == nullptr) in.fail(fmt::format("a constant for '{}'", info.name));
    }
    graph_.tensors.push_back(std::move(info));
  }
  void node(LineReader& in, NodeAttributes attributes) {
    Node result;
    result.name = in.string();
    result.inputs = ids(in);
    in.expect("->");
    result.outputs = ids(in);
    while (!in.failed() && !in.accept("from")) {
      const std::string name = in.word();
      in.expect("=");
      FieldReader field{in, name};
      std::visit([&](auto& held) { visit_attributes(field, held); }, attributes);
      if (!field.found) in.fail(fmt::format("a field of this kind of node instead of '{}'", name));
    }
    read(in, result.origins);
    result.attributes = std::move(attributes);
    graph_.nodes.push_back(std::move(result));
  }

  Graph& graph_;
  const ConstantLookup& constants_;
};

}  // namespace

Result<Graph> parse(const std::string& text, const ConstantLookup& constants) {
  Graph graph;
  Parser parser(graph, constants);
  std::size_t number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    ++number;
    LineReader in(std::string_view(text).substr(start, end - start));
    start = end + 1;
    if (in.at_end()) continue;
    parser.line(in);
    if (in.failed()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("line {}: {}", number, in.error())};
    }
  }
  return graph;
}

}  // namespace tessera::graph
