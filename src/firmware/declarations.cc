// Declarations: scalars, register files, vectors, matrices, queues, DRAM.
//
//   set hidden = 128
//   file initial 512
//   vector h [hidden] in initial = 0
//   matrix W [64, 32] window 3 x 3 in matrix = random 1 0.1
//   queue x [128] in
//   dram image [16, 16, 32] input
#include "firmware/declarations.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/nearest.h"
#include "base/quantity.h"

namespace tessera::firmware {
namespace {

constexpr std::size_t kValuesMax = 1 << 16;  // of a list in the text
constexpr std::size_t kSymbolsMax = 1 << 12;

// "[a, b, c]" of expressions, 1 to `most`.
Result<std::vector<std::int64_t>> parse_shape(ParseContext& context, std::size_t most) {
  Lexer& lexer = context.lexer;
  TESSERA_RETURN_IF_ERROR(lexer.expect("[", "in front of the shape"));
  std::vector<std::int64_t> shape;
  while (true) {
    const Place place = lexer.peek().place;
    TESSERA_TRY(const std::int64_t extent, parse_bounded(context, "an extent", 1, kExtentMax));
    shape.push_back(extent);
    std::int64_t elements = 1;
    for (const std::int64_t e : shape) elements *= e;
    if (elements > kElementsMax) {
      return lexer.error(place, fmt::format("more than {} elements", kElementsMax));
    }
    TESSERA_TRY(const bool more, lexer.accept(","));
    if (!more) break;
    if (shape.size() == most) {
      return lexer.error(lexer.peek().place, fmt::format("at most {} extents here", most));
    }
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect("]", "behind the shape"));
  return shape;
}

// Leading axes of a shape go to the last of three.
Status set_extents(const Lexer& lexer, const std::vector<std::int64_t>& leading, Symbol& symbol) {
  symbol.axes = static_cast<int>(leading.size());
  for (std::size_t i = 0; i < leading.size(); ++i) {
    symbol.extents[kAxes - leading.size() + i] = leading[i];
  }
  if (symbol.extents[0] <= kPlanesMax) return {};
  return lexer.error(symbol.place, fmt::format("'{}' has {} planes, allowed 1..{}", symbol.name,
                                               symbol.extents[0], kPlanesMax));
}

Result<Contents> parse_file(ParseContext& context) {
  Lexer& lexer = context.lexer;
  Contents contents;
  contents.kind = Contents::Kind::kFile;
  Place place = lexer.peek().place;
  TESSERA_TRY(const std::string path, lexer.expect_string("a file"));
  if (!context.options.read) {
    return lexer.error(place, fmt::format("'{}': no files can be read here", path));
  }
  auto bytes = context.options.read(path);
  if (!bytes.ok()) return lexer.error(place, bytes.error().message);
  contents.bytes = std::move(bytes).value();
  place = lexer.peek().place;
  TESSERA_TRY(const std::string name, lexer.expect_name("the elements' format: f16, bf16 or f32"));
  const auto format = format_from_name(name);
  if (!format || !format_is_vector(*format)) {
    return lexer.error(place, fmt::format("'{}' in a file; allowed: f16, bf16, f32", name));
  }
  contents.format = *format;
  return contents;
}

Result<Contents> parse_list(ParseContext& context) {
  Lexer& lexer = context.lexer;
  Contents contents;
  contents.kind = Contents::Kind::kList;
  TESSERA_RETURN_IF_ERROR(lexer.expect("[", "in front of the values"));
  while (!lexer.peek().is("]")) {
    TESSERA_TRY(const double value, lexer.expect_real("a value"));
    contents.values.push_back(value);
    if (contents.values.size() > kValuesMax) {
      return lexer.error(lexer.peek().place,
                         fmt::format("more than {} values; put them into a file: "
                                     "= file \"values.bin\" f32",
                                     kValuesMax));
    }
    TESSERA_TRY(const bool more, lexer.accept(","));
    if (!more) break;
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect("]", "behind the values"));
  return contents;
}

// Behind '='.
Result<Contents> parse_contents(ParseContext& context) {
  Lexer& lexer = context.lexer;
  TESSERA_TRY(const bool file, lexer.accept_name("file"));
  if (file) return parse_file(context);
  TESSERA_TRY(const bool identity, lexer.accept_name("identity"));
  Contents contents;
  if (identity) {
    contents.kind = Contents::Kind::kIdentity;
    return contents;
  }
  TESSERA_TRY(const bool random, lexer.accept_name("random"));
  if (random) {
    contents.kind = Contents::Kind::kRandom;
    TESSERA_TRY(contents.seed, lexer.expect_unsigned("a seed"));
    TESSERA_TRY(contents.scale, lexer.expect_real("the largest magnitude"));
    return contents;
  }
  if (lexer.peek().is("[")) return parse_list(context);
  contents.kind = Contents::Kind::kFill;
  TESSERA_TRY(const double value, lexer.expect_real("a value, a list, random, identity or file"));
  contents.values = {value};
  return contents;
}

Status check_count(const ParseContext& context, const Symbol& symbol, std::int64_t elements) {
  const Contents& contents = symbol.contents;
  std::int64_t found = elements;
  if (contents.kind == Contents::Kind::kList) {
    found = static_cast<std::int64_t>(contents.values.size());
  } else if (contents.kind == Contents::Kind::kFile) {
    found = static_cast<std::int64_t>(contents.bytes.size()) / format_bytes(contents.format);
    if (found * format_bytes(contents.format) != static_cast<std::int64_t>(contents.bytes.size())) {
      found = -1;
    }
  }
  if (found == elements) return {};
  return context.lexer.error(
      symbol.place, fmt::format("'{}' has {} elements, its contents {}", symbol.name, elements,
                                found < 0 ? "no whole number" : std::to_string(found)));
}

Status accept_contents(ParseContext& context, Symbol& symbol, std::int64_t elements) {
  TESSERA_TRY(const bool there, context.lexer.accept("="));
  if (!there) return {};
  TESSERA_TRY(symbol.contents, parse_contents(context));
  symbol.written = true;
  if (symbol.contents.kind == Contents::Kind::kIdentity &&
      symbol.memory != ChainMemoryKind::kMatrix && symbol.memory != ChainMemoryKind::kDramMatrix) {
    return context.lexer.error(symbol.place, "an identity is the contents of a matrix");
  }
  return check_count(context, symbol, elements);
}

Result<int> parse_register_file(ParseContext& context) {
  static constexpr const char* kFiles[] = {"initial", "addsub", "multiply"};
  Lexer& lexer = context.lexer;
  const Place place = lexer.peek().place;
  TESSERA_TRY(const std::string name, lexer.expect_name("a register file"));
  const auto* const found = std::find(std::begin(kFiles), std::end(kFiles), name);
  if (found == std::end(kFiles)) {
    return lexer.error(place, fmt::format("'{}' is no vector register file; allowed: initial, "
                                          "addsub, multiply",
                                          name));
  }
  return static_cast<int>(found - std::begin(kFiles));
}

Status parse_scalar(ParseContext& context) {
  TESSERA_TRY(const std::string name, context.lexer.expect_name("a scalar register's name"));
  TESSERA_RETURN_IF_ERROR(context.lexer.expect("=", "behind the scalar register"));
  TESSERA_TRY(const std::int64_t value,
              parse_expression(context.lexer, context.scalars, "the value"));
  context.scalars[name] = value;
  return {};
}

// "scalar n = message x": what the header of the queue's message says.
Status parse_message_scalar(ParseContext& context) {
  Lexer& lexer = context.lexer;
  TESSERA_TRY(const std::string name, lexer.expect_name("a scalar register's name"));
  TESSERA_RETURN_IF_ERROR(lexer.expect("=", "behind the scalar register"));
  TESSERA_TRY(const bool message, lexer.accept_name("message"));
  if (!message) {
    return lexer.unexpected("'message' and a queue; a number that is known is 'set NAME = EXPR'");
  }
  const Place place = lexer.peek().place;
  TESSERA_TRY(const std::size_t queue, parse_symbol(context, "a queue"));
  const Symbol& symbol = context.program.symbols[queue];
  if (symbol.memory != ChainMemoryKind::kQueueIn) {
    return lexer.error(place, fmt::format("'{}' lies in {}; messages come in by a queue",
                                          symbol.name, memory_name(symbol.memory)));
  }
  context.message_scalars[name] = queue;
  return {};
}

Status parse_file_size(ParseContext& context) {
  TESSERA_TRY(const int file, parse_register_file(context));
  TESSERA_TRY(context.program.file_vectors[static_cast<std::size_t>(file)],
              parse_bounded(context, "the file's native vectors", 1, kExtentMax));
  return {};
}

// Two vectors of one register file at the same address.
Status check_overlap(const ParseContext& context, const Symbol& symbol) {
  for (const Symbol& other : context.program.symbols) {
    if (other.memory != symbol.memory) continue;
    if (symbol.address >= other.address + other.vectors ||
        other.address >= symbol.address + symbol.vectors) {
      continue;
    }
    return context.lexer.error(
        symbol.place, fmt::format("'{}' at {}..{} of {} overlaps '{}' at {}..{}, declared in "
                                  "line {}; leave 'at' "
                                  "out, and it is placed",
                                  symbol.name, symbol.address, symbol.address + symbol.vectors - 1,
                                  memory_name(symbol.memory), other.name, other.address,
                                  other.address + other.vectors - 1, other.place.line));
  }
  return {};
}

Status place_vector(ParseContext& context, Symbol& symbol) {
  const std::int64_t partitions = context.chip.state_buffer.partitions;
  const std::int64_t slots = symbol.volume() * ceil_div(symbol.length, partitions);
  symbol.vectors = ceil_div(slots, native_vector(context.chip) / partitions);
  TESSERA_TRY(const bool at, context.lexer.accept_name("at"));
  if (at) {
    TESSERA_TRY(symbol.address, parse_bounded(context, "the address", 0, kExtentMax));
  } else {
    for (const Symbol& other : context.program.symbols) {
      if (other.memory != symbol.memory) continue;
      symbol.address = std::max(symbol.address, other.address + other.vectors);
    }
  }
  TESSERA_RETURN_IF_ERROR(check_overlap(context, symbol));
  const std::int64_t size = context.program.file_vectors[static_cast<std::size_t>(symbol.memory)];
  if (size != 0 && symbol.address + symbol.vectors > size) {
    return context.lexer.error(
        symbol.place, fmt::format("'{}' takes native vectors {}..{} of {}, which has {}; enlarge "
                                  "the file or share an address",
                                  symbol.name, symbol.address, symbol.address + symbol.vectors - 1,
                                  memory_name(symbol.memory), size));
  }
  return {};
}

Status parse_vector(ParseContext& context, Symbol& symbol) {
  TESSERA_TRY(std::vector<std::int64_t> shape, parse_shape(context, kAxes + 1));
  symbol.length = shape.back();
  shape.pop_back();
  TESSERA_RETURN_IF_ERROR(set_extents(context.lexer, shape, symbol));
  TESSERA_TRY(const bool in, context.lexer.accept_name("in"));
  if (!in) return context.lexer.unexpected("'in' and a register file");
  TESSERA_TRY(const int file, parse_register_file(context));
  symbol.memory = static_cast<ChainMemoryKind>(file);
  TESSERA_RETURN_IF_ERROR(place_vector(context, symbol));
  return accept_contents(context, symbol, symbol.volume() * symbol.length);
}

Status parse_matrix(ParseContext& context, Symbol& symbol) {
  Lexer& lexer = context.lexer;
  TESSERA_TRY(std::vector<std::int64_t> shape, parse_shape(context, kAxes + 2));
  if (shape.size() < 2) {
    return lexer.error(symbol.place, "a matrix has rows and columns: [rows, columns]");
  }
  symbol.length = shape.back();
  shape.pop_back();
  symbol.rows = shape.back();
  shape.pop_back();
  TESSERA_RETURN_IF_ERROR(set_extents(context.lexer, shape, symbol));
  TESSERA_TRY(const bool window, lexer.accept_name("window"));
  if (window) {
    TESSERA_TRY(symbol.window, parse_axes(context, "the window", 1));
  }
  TESSERA_TRY(const bool in, lexer.accept_name("in"));
  if (!in) return lexer.unexpected("'in matrix' or 'in dram'");
  const Place place = lexer.peek().place;
  TESSERA_TRY(const std::string memory, lexer.expect_name("matrix or dram"));
  if (memory != "matrix" && memory != "dram") {
    return lexer.error(
        place, fmt::format("a matrix lies in the memory matrix or dram, not in '{}'", memory));
  }
  symbol.memory = memory == "matrix" ? ChainMemoryKind::kMatrix : ChainMemoryKind::kDramMatrix;
  const std::int64_t elements = symbol.volume() * symbol.rows * symbol.taps() * symbol.length;
  if (symbol.taps() > kExtentMax || elements > kElementsMax) {
    return lexer.error(symbol.place, fmt::format("more than {} elements", kElementsMax));
  }
  TESSERA_RETURN_IF_ERROR(accept_contents(context, symbol, elements));
  const Contents::Kind kind = symbol.contents.kind;
  if (kind == Contents::Kind::kIdentity && (symbol.rows != symbol.length || symbol.taps() != 1)) {
    return lexer.error(symbol.place, "an identity matrix has as many rows as columns");
  }
  if (kind == Contents::Kind::kNone && symbol.memory == ChainMemoryKind::kDramMatrix) {
    return lexer.error(symbol.place, fmt::format("'{}' lies in DRAM and has no contents; give them "
                                                 "behind '='",
                                                 symbol.name));
  }
  return {};
}

Status parse_queue(ParseContext& context, Symbol& symbol) {
  TESSERA_TRY(std::vector<std::int64_t> shape, parse_shape(context, kAxes + 1));
  symbol.length = shape.back();
  shape.pop_back();
  TESSERA_RETURN_IF_ERROR(set_extents(context.lexer, shape, symbol));
  const Place place = context.lexer.peek().place;
  TESSERA_TRY(const std::string direction, context.lexer.expect_name("in or out"));
  if (direction != "in" && direction != "out") {
    return context.lexer.error(place, fmt::format("a queue goes in or out, not '{}'", direction));
  }
  symbol.memory = direction == "in" ? ChainMemoryKind::kQueueIn : ChainMemoryKind::kQueueOut;
  symbol.written = symbol.memory == ChainMemoryKind::kQueueIn;
  return {};
}

Status parse_dram(ParseContext& context, Symbol& symbol) {
  TESSERA_TRY(std::vector<std::int64_t> shape, parse_shape(context, kAxes + 1));
  symbol.length = shape.back();
  shape.pop_back();
  TESSERA_RETURN_IF_ERROR(set_extents(context.lexer, shape, symbol));
  symbol.memory = ChainMemoryKind::kDram;
  if (context.lexer.peek().is("=")) {
    return accept_contents(context, symbol, symbol.volume() * symbol.length);
  }
  const Place place = context.lexer.peek().place;
  TESSERA_TRY(const std::string use, context.lexer.expect_name("input, output, workspace or '='"));
  if (use == "input") {
    symbol.use = DramUse::kInput;
    symbol.written = true;
  } else if (use == "output") {
    symbol.use = DramUse::kOutput;
  } else if (use == "workspace") {
    symbol.use = DramUse::kWorkspace;
  } else {
    return context.lexer.error(place, fmt::format("'{}' in DRAM; allowed: input, output, workspace "
                                                  "or '=' and contents",
                                                  use));
  }
  return {};
}

}  // namespace

Status parse_declaration(ParseContext& context, const std::string& word, const Place& place) {
  Lexer& lexer = context.lexer;
  if (word == "set" || word == "file" || word == "scalar") {
    TESSERA_RETURN_IF_ERROR(word == "set"    ? parse_scalar(context)
                            : word == "file" ? parse_file_size(context)
                                             : parse_message_scalar(context));
    return lexer.expect_end_of_line("here");
  }
  if (!context.loop_counters.empty()) {
    return lexer.error(place, fmt::format("'{}' in a loop; declare names in front of it", word));
  }
  Symbol symbol;
  symbol.place = lexer.peek().place;
  TESSERA_TRY(symbol.name, lexer.expect_name("a name"));
  if (const auto found = context.names.find(symbol.name); found != context.names.end()) {
    return lexer.error(symbol.place,
                       fmt::format("'{}' is declared in line {} already", symbol.name,
                                   context.program.symbols[found->second].place.line));
  }
  if (symbol.name == "initial" || symbol.name == "addsub" || symbol.name == "multiply") {
    return lexer.error(symbol.place, fmt::format("'{}' is a register file", symbol.name));
  }
  Status status;
  if (word == "vector") status = parse_vector(context, symbol);
  if (word == "matrix") status = parse_matrix(context, symbol);
  if (word == "queue") status = parse_queue(context, symbol);
  if (word == "dram") status = parse_dram(context, symbol);
  TESSERA_RETURN_IF_ERROR(status);
  TESSERA_RETURN_IF_ERROR(lexer.expect_end_of_line("here"));
  context.elements += symbol.volume() * symbol.rows * symbol.taps() * symbol.length;
  if (context.elements > kElementsMax) {
    return lexer.error(symbol.place,
                       fmt::format("more than {} elements in all names together", kElementsMax));
  }
  if (context.program.symbols.size() == kSymbolsMax) {
    return lexer.error(place, fmt::format("more than {} names", kSymbolsMax));
  }
  context.names[symbol.name] = context.program.symbols.size();
  context.program.symbols.push_back(std::move(symbol));
  return {};
}

}  // namespace tessera::firmware
