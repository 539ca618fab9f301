// One chain: its lines, and the rules of the vector pipeline that each has to keep.
//
//   chain "gate" [shape [1, 128]]
//     iterate 14 x 14                        how often, where the source does not say it
//     read image window 3 x 3 stride 2 x 2 pad 1 x 1
//     product W
//     add bias
//     relu
//     write out
//   end
#include "firmware/chain_body.h"

#include <fmt/format.h>

#include "arch/nearest.h"
#include "base/quantity.h"
#include "firmware/integer_list.h"

namespace tessera::firmware {
namespace {

// What a vector unit has: one of each a chain. A crossbar leaves their order
// free.
enum class Part { kMultiplier, kAdder, kActivation };

struct Word {
  const char* word;
  Part part;
  ChainOperation::Kind kind;
  UnaryFunction unary;
  BinaryFunction binary;
  bool swapped;
};
constexpr Word kWords[] = {
    {"add", Part::kAdder, ChainOperation::Kind::kBinary, {}, BinaryFunction::kAdd, false},
    {"subtract", Part::kAdder, ChainOperation::Kind::kBinary, {}, BinaryFunction::kSubtract, false},
    {"subtract_from",
     Part::kAdder,
     ChainOperation::Kind::kBinary,
     {},
     BinaryFunction::kSubtract,
     true},
    {"maximum", Part::kAdder, ChainOperation::Kind::kBinary, {}, BinaryFunction::kMaximum, false},
    {"multiply",
     Part::kMultiplier,
     ChainOperation::Kind::kBinary,
     {},
     BinaryFunction::kMultiply,
     false},
    {"relu", Part::kActivation, ChainOperation::Kind::kUnary, UnaryFunction::kRelu, {}, false},
    {"sigmoid",
     Part::kActivation,
     ChainOperation::Kind::kUnary,
     UnaryFunction::kSigmoid,
     {},
     false},
    {"tanh", Part::kActivation, ChainOperation::Kind::kUnary, UnaryFunction::kTanh, {}, false},
    {"exp", Part::kActivation, ChainOperation::Kind::kUnary, UnaryFunction::kExp, {}, false},
    {"reciprocal",
     Part::kActivation,
     ChainOperation::Kind::kUnary,
     UnaryFunction::kReciprocal,
     {},
     false},
    {"square_root",
     Part::kActivation,
     ChainOperation::Kind::kUnary,
     UnaryFunction::kSquareRoot,
     {},
     false},
    {"softmax", Part::kActivation, ChainOperation::Kind::kSoftmax, {}, {}, false},
};

// Which vector unit an operation of a chain goes to.
class VectorUnits {
 public:
  explicit VectorUnits(std::int64_t count) : count_(count) {}
  bool take(Part part) {
    bool& busy = busy_[static_cast<std::size_t>(part)];
    if (busy) {
      ++used_;
      busy_ = {};
    }
    busy = true;
    return used_ <= count_;
  }

 private:
  const std::int64_t count_;
  std::int64_t used_ = 1;
  std::array<bool, 3> busy_{};
};

std::string extents_text(const Extents& extents) {
  return fmt::format("{} x {} x {}", extents[0], extents[1], extents[2]);
}

// Where a chain may take its vectors, or leave them.
std::string memories_of(const std::string& word) {
  if (word == "multiply") return "the register file multiply";
  if (word == "read") return "an incoming queue, DRAM or the register file initial";
  if (word == "write") return "an outgoing queue, DRAM or a register file";
  if (word == "product") return "the matrix register file, or rows of it in initial";
  if (word == "correlate") return "the matrix register file";
  return "the register file addsub";
}

bool may_take(const std::string& word, ChainMemoryKind memory) {
  if (word == "multiply") return memory == ChainMemoryKind::kMultiply;
  if (word == "read") {
    return memory == ChainMemoryKind::kInitial || memory == ChainMemoryKind::kQueueIn ||
           memory == ChainMemoryKind::kDram;
  }
  if (word == "write") {
    return is_register_file(memory) || memory == ChainMemoryKind::kQueueOut ||
           memory == ChainMemoryKind::kDram;
  }
  return memory == ChainMemoryKind::kAddSubtract;
}

class ChainReader {
 public:
  ChainReader(ParseContext& context, const Place& place)
      : context_(context), lexer_(context.lexer), units_(context.chip.planar.count) {
    chain_.place = place;
    chain_.in_time_loop = context.in_time_loop;
  }

  Result<Chain> run() {
    TESSERA_TRY(chain_.name, lexer_.expect_string("the chain's name"));
    chain_.name += context_.loop_counters;
    TESSERA_TRY(const bool shape, lexer_.accept_name("shape"));
    if (shape) {
      TESSERA_TRY(chain_.shape, parse_integers(lexer_, "of the shape", 8));
    }
    TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("of the chain's head"));
    while (true) {
      TESSERA_RETURN_IF_ERROR(lexer_.skip_empty_lines());
      const Place place = lexer_.peek().place;
      TESSERA_TRY(const std::string word, lexer_.expect_name("a line of the chain, or 'end'"));
      if (word == "end") break;
      TESSERA_RETURN_IF_ERROR(line(word, place));
      TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("here"));
    }
    if (!has_read_) return lexer_.error(chain_.place, "a chain begins with a read");
    if (chain_.writes.empty() && !chain_.moved_to) {
      return lexer_.error(chain_.place, "a chain ends with one or more writes");
    }
    TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("behind 'end'"));
    return std::move(chain_);
  }

 private:
  Symbol& symbol(std::size_t index) { return context_.program.symbols[index]; }
  Error rule(const Place& place, const std::string& message) const {
    return lexer_.error(place, message);
  }

  Status line(const std::string& word, const Place& place) {
    if (word == "iterate") return iterate(place);
    if (word == "engines") return engines(place);
    if (word == "read") return read(place);
    if (!has_read_) return rule(place, fmt::format("'{}' in front of the read", word));
    if (word == "write") return write(place);
    if (chain_.moved_from) {
      return rule(place,
                  fmt::format("'{}' on a matrix; a matrix is read and written, no more", word));
    }
    if (!chain_.writes.empty()) {
      return rule(place, fmt::format("'{}' behind a write; begin another chain", word));
    }
    if (word == "quantised") {
      chain_.quantised = true;
      return {};
    }
    if (word == "product" || word == "correlate") return product(word, place);
    for (const Word& known : kWords) {
      if (word == known.word) return vector_operation(known, place);
    }
    std::vector<std::string> names = {"iterate", "engines",   "read",      "write",
                                      "product", "correlate", "quantised", "end"};
    for (const Word& known : kWords) names.emplace_back(known.word);
    const std::string near = nearest_name(word, names);
    return rule(place, fmt::format("'{}' is no line of a chain;{} allowed: {}", word,
                                   near.empty() ? "" : fmt::format(" did you mean '{}'?", near),
                                   fmt::join(names, ", ")));
  }

  Status iterate(const Place& place) {
    if (has_read_) return rule(place, "'iterate' behind the read; it stands in front of it");
    has_iterations_ = true;
    TESSERA_TRY(chain_.iterations, parse_axes(context_, "iterations", 1));
    return {};
  }

  // "engines planar 0 to 2 unicast", or without the range or the way of sharing.
  Status engines(const Place& place) {
    if (has_read_) return rule(place, "'engines' behind the read; it stands in front of it");
    TESSERA_TRY(const bool neural, lexer_.accept_name("neural"));
    if (!neural) {
      TESSERA_TRY(const bool planar, lexer_.accept_name("planar"));
      if (!planar) return lexer_.unexpected("'neural' or 'planar', the kind of the engines");
    }
    ChainEngines& taken = neural ? chain_.neural : chain_.planar;
    if (lexer_.peek().kind == TokenKind::kInteger) {
      TESSERA_RETURN_IF_ERROR(parse_engine_set(lexer_, taken.engines));
    }
    if (lexer_.peek().ends_line()) return {};
    for (const isa::Sharing sharing : {isa::Sharing::kBroadcast, isa::Sharing::kUnicast}) {
      TESSERA_TRY(const bool named,
                  lexer_.accept_name(isa::kSharingNames[static_cast<std::size_t>(sharing)]));
      if (!named) continue;
      taken.sharing = sharing;
      return {};
    }
    return lexer_.unexpected("engines as in 0 to 2, 'broadcast' or 'unicast'");
  }

  // ---- operands ----

  Error wrong_memory(const Place& place, const std::string& word, const std::string& name,
                     ChainMemoryKind memory) const {
    return rule(place, fmt::format("'{}' lies in {}; {} takes {}", name, memory_name(memory), word,
                                   memories_of(word)));
  }

  // A vector at every iteration: a declared name with indices, or a register
  // file and an address.
  Result<VectorView> operand(const std::string& word, std::int64_t length) {
    const Token token = lexer_.peek();
    for (int file = 0; file < kRegisterFileCount; ++file) {
      if (!token.is_name(memory_name(static_cast<ChainMemoryKind>(file)))) continue;
      const auto memory = static_cast<ChainMemoryKind>(file);
      if (!may_take(word, memory)) return wrong_memory(token.place, word, token.text, memory);
      return raw_operand(memory, length);
    }
    TESSERA_TRY(const std::size_t index, parse_symbol(context_, "a vector"));
    const ChainMemoryKind memory = symbol(index).memory;
    if (!may_take(word, memory)) return wrong_memory(token.place, word, token.text, memory);
    TESSERA_TRY(VectorView view, named_view(index, token.place));
    if (word != "write" && !symbol(index).written) {
      return rule(token.place, fmt::format("'{}' is read before anything was written to it; give "
                                           "it contents, as in '= 0', or write it first",
                                           token.text));
    }
    if (length != 0 && view.length != length) {
      return rule(token.place, fmt::format("'{}' has vectors of {} elements, the chain's have {}",
                                           token.text, view.length, length));
    }
    return view;
  }

  // The whole volume behind a name and its indices, with its own pitches.
  Result<VectorView> named_view(std::size_t index, const Place& place) {
    const Symbol& found = symbol(index);
    VectorView view;
    view.memory = found.memory;
    view.symbol = index;
    view.length = found.length;
    view.extents = found.extents;
    view.place = place;
    const std::int64_t plane = found.extents[1] * found.extents[2];
    if (is_register_file(found.memory)) {
      const std::int64_t blocks = ceil_div(found.length, context_.chip.state_buffer.partitions);
      view.block_pitch = plane;
      view.pitch = {blocks * plane, found.extents[2], 1};
    } else {
      view.pitch = {plane * found.length, found.extents[2] * found.length, found.length};
    }
    TESSERA_TRY(const bool indexed, lexer_.accept("["));
    if (!indexed) return view;
    for (int axis = kAxes - found.axes;; ++axis) {
      const Place at = lexer_.peek().place;
      if (axis == kAxes) {
        return rule(
            at, fmt::format("'{}' has {} axes in front of its vectors", found.name, found.axes));
      }
      const auto a = static_cast<std::size_t>(axis);
      TESSERA_TRY(const std::int64_t value, parse_expression(lexer_, context_.scalars, "an index"));
      if (value < 0 || value >= found.extents[a]) {
        return rule(at, fmt::format("index {} of '{}', allowed 0..{}", value, found.name,
                                    found.extents[a] - 1));
      }
      view.origin += value * view.pitch[a];
      view.extents[a] = 1;
      TESSERA_TRY(const bool more, lexer_.accept(","));
      if (!more) break;
    }
    TESSERA_RETURN_IF_ERROR(lexer_.expect("]", "behind the index"));
    return view;
  }

  // "initial[4] length 256 step 2": addresses and steps in native vectors.
  Result<VectorView> raw_operand(ChainMemoryKind memory, std::int64_t length) {
    const std::int64_t native = native_vector(context_.chip);
    const std::int64_t slots = native / context_.chip.state_buffer.partitions;
    VectorView view;
    view.memory = memory;
    view.place = lexer_.peek().place;
    view.block_pitch = 1;
    TESSERA_RETURN_IF_ERROR(lexer_.advance());
    TESSERA_RETURN_IF_ERROR(lexer_.expect("[", "and an address"));
    TESSERA_TRY(const std::int64_t address, parse_bounded(context_, "an address", 0, kExtentMax));
    TESSERA_RETURN_IF_ERROR(lexer_.expect("]", "behind the address"));
    view.length = length;
    TESSERA_TRY(const bool given, lexer_.accept_name("length"));
    if (given) {
      TESSERA_TRY(view.length, parse_bounded(context_, "the length", 1, kExtentMax));
      if (length != 0 && view.length != length) {
        return rule(view.place, fmt::format("a length of {}, the chain's vectors have {} elements",
                                            view.length, length));
      }
    }
    if (view.length == 0) {  // as many native vectors as the scalar register `columns` says
      const auto columns = context_.scalars.find("columns");
      const std::int64_t count = columns == context_.scalars.end() ? 1 : columns->second;
      if (count < 1 || count > kExtentMax / native) {
        return rule(view.place, fmt::format("{} columns of {} elements, allowed 1..{}", count,
                                            native, kExtentMax / native));
      }
      view.length = count * native;
    }
    Extents step;
    step[2] = ceil_div(view.length, native);
    step[1] = step[2] * chain_.iterations[2];
    step[0] = step[1] * chain_.iterations[1];
    TESSERA_TRY(const bool stepped, lexer_.accept_name("step"));
    if (stepped) {
      TESSERA_TRY(step, parse_axes(context_, "the step", 0));
    }
    const std::int64_t size = context_.program.file_vectors[static_cast<std::size_t>(memory)];
    if (size == 0) {
      return rule(view.place, fmt::format("an address in {} whose size is not declared; declare it "
                                          "with 'file {} NUMBER'",
                                          memory_name(memory), memory_name(memory)));
    }
    std::int64_t last = address + ceil_div(view.length, native) - 1;
    for (std::size_t a = 0; a < kAxes; ++a) last += (chain_.iterations[a] - 1) * step[a];
    if (last >= size) {
      return rule(view.place, fmt::format("native vectors {}..{} of {}, which has {}", address,
                                          last, memory_name(memory), size));
    }
    view.origin = address * slots;
    for (std::size_t a = 0; a < kAxes; ++a) {
      view.pitch[a] = chain_.iterations[a] == 1 ? 0 : step[a] * slots;
    }
    raw_ = true;
    return view;
  }

  // Pitches from one iteration to the next: the volume's own, or those of
  // `step`; 0 broadcasts.
  Status increments(VectorView& view, const char* what) {
    if (view.symbol == SIZE_MAX) return {};  // a raw operand has its steps
    TESSERA_TRY(const bool stepped, lexer_.accept_name("step"));
    Extents step = {1, 1, 1};
    if (stepped) {
      TESSERA_TRY(step, parse_axes(context_, "the step", 0));
    }
    for (std::size_t a = 0; a < kAxes; ++a) {
      const std::int64_t count = chain_.iterations[a];
      if (!stepped && view.extents[a] == 1) step[a] = 0;
      if (!stepped && view.extents[a] != 1 && view.extents[a] != count) {
        return rule(view.place,
                    fmt::format("'{}' has {} vectors, the chain {} iterations; give 'step', or "
                                "'iterate' in front of the read",
                                symbol(view.symbol).name, extents_text(view.extents),
                                extents_text(chain_.iterations)));
      }
      if (count > 1 && step[a] * (count - 1) >= view.extents[a]) {
        return rule(view.place, fmt::format("{} iterations in steps of {} reach vector {} "
                                            "of '{}', which has "
                                            "{} along this axis",
                                            count, step[a], step[a] * (count - 1),
                                            symbol(view.symbol).name, view.extents[a]));
      }
      view.pitch[a] = count == 1 ? 0 : view.pitch[a] * step[a];
      if (std::string_view(what) == "write" && count > 1 && view.pitch[a] == 0) {
        return rule(view.place, fmt::format("all {} iterations would write one vector of '{}'",
                                            count, symbol(view.symbol).name));
      }
    }
    return {};
  }

  // ---- lines ----

  Status read(const Place& place) {
    if (has_read_)
      return rule(place, "a second read; a chain has one, operations bring the others");
    has_read_ = true;
    if (const auto found = context_.names.find(lexer_.peek().text);
        found != context_.names.end() &&
        symbol(found->second).memory == ChainMemoryKind::kDramMatrix) {
      TESSERA_TRY(const MatrixUse use, matrix("read"));
      chain_.moved_from = use;
      return {};
    }
    TESSERA_TRY(chain_.source, operand("read", 0));
    length_ = chain_.source.length;
    if (chain_.source.memory == ChainMemoryKind::kQueueIn) pass_queue(chain_.source);
    if (lexer_.peek().is_name("window")) return window(place);
    if (!has_iterations_ && !raw_ && !lexer_.peek().is_name("step")) {
      chain_.iterations = chain_.source.extents;
    }
    return increments(chain_.source, "read");
  }

  void pass_queue(VectorView& view) {
    Symbol& queue = symbol(view.symbol);
    view.origin += queue.transfers * queue.volume() * queue.length;
    ++queue.transfers;
  }

  // "window 3 x 3 stride 2 x 2 pad 1 x 1 tap 0 x 2"
  Status window(const Place& place) {
    Window& window = chain_.window;
    window.used = true;
    if (chain_.source.symbol == SIZE_MAX) {
      return rule(place, "a window slides over a declared volume, not over an address");
    }
    TESSERA_RETURN_IF_ERROR(lexer_.advance());
    TESSERA_TRY(window.size, parse_axes(context_, "the window", 1));
    TESSERA_TRY(const bool stride, lexer_.accept_name("stride"));
    if (stride) {
      TESSERA_TRY(window.stride, parse_axes(context_, "the stride", 1));
    }
    TESSERA_TRY(const bool pad, lexer_.accept_name("pad"));
    if (pad) {
      TESSERA_TRY(window.pad, parse_axes(context_, "the pad", 0));
    }
    TESSERA_TRY(window.has_tap, lexer_.accept_name("tap"));
    if (window.has_tap) {
      TESSERA_TRY(window.tap, parse_axes(context_, "the tap", 0));
    }
    Extents counts = {1, 1, 1};
    for (std::size_t a = 0; a < kAxes; ++a) {
      const std::int64_t room = chain_.source.extents[a] + 2 * window.pad[a] - window.size[a];
      if (room < 0 || window.pad[a] >= window.size[a] || window.tap[a] >= window.size[a]) {
        return rule(place, fmt::format("a window of {} with pad {} and tap {} on a volume of "
                                       "{}: it must "
                                       "fit, and pad and tap are smaller than the window",
                                       window.size[a], window.pad[a], window.tap[a],
                                       chain_.source.extents[a]));
      }
      counts[a] = room / window.stride[a] + 1;
      if (has_iterations_ && chain_.iterations[a] > counts[a]) {
        return rule(place, fmt::format("{} iterations, the window has {} places along this axis",
                                       chain_.iterations[a], counts[a]));
      }
    }
    if (!has_iterations_) chain_.iterations = counts;
    return {};
  }

  Result<MatrixUse> matrix(const std::string& word) {
    const Place place = lexer_.peek().place;
    MatrixUse use;
    TESSERA_TRY(use.symbol, parse_symbol(context_, "a matrix"));
    const Symbol& found = symbol(use.symbol);
    if (found.memory != ChainMemoryKind::kMatrix && found.memory != ChainMemoryKind::kDramMatrix) {
      return wrong_memory(place, word, found.name, found.memory);
    }
    if (found.axes == 0) return use;
    TESSERA_RETURN_IF_ERROR(lexer_.expect("[", "and which of the matrices"));
    for (int axis = kAxes - found.axes; axis < kAxes; ++axis) {
      const Place at = lexer_.peek().place;
      const std::int64_t extent = found.extents[static_cast<std::size_t>(axis)];
      TESSERA_TRY(const std::int64_t value, parse_expression(lexer_, context_.scalars, "an index"));
      if (value < 0 || value >= extent) {
        return rule(at,
                    fmt::format("index {} of '{}', allowed 0..{}", value, found.name, extent - 1));
      }
      use.index = use.index * extent + value;
      if (axis + 1 < kAxes) TESSERA_RETURN_IF_ERROR(lexer_.expect(",", "and the next index"));
    }
    TESSERA_RETURN_IF_ERROR(lexer_.expect("]", "behind the index"));
    return use;
  }

  // A sum over the root of both energies needs all of the window's elements in one product.
  Status check_correlation(const Place& place) const {
    if (chain_.window.size[0] == 1 && !chain_.window.has_tap) return {};
    return rule(place, "'correlate' takes a window of one plane with all of its taps");
  }

  Status product(const std::string& word, const Place& place) {
    const bool correlates = word == "correlate";
    if (!chain_.operations.empty()) {
      return rule(place,
                  chain_.operations[0].word == "product" || chain_.operations[0].word == "correlate"
                      ? "a second product; a chain has at most one, write and "
                        "begin another"
                      : "a product stands first in its chain, behind the read");
    }
    ChainOperation operation;
    operation.word = word;
    operation.place = place;
    const auto found = context_.names.find(lexer_.peek().text);
    if (correlates) TESSERA_RETURN_IF_ERROR(check_correlation(place));
    if (!correlates && found != context_.names.end() &&
        symbol(found->second).memory == ChainMemoryKind::kInitial) {
      operation.kind = ChainOperation::Kind::kProductOfVectors;
      TESSERA_RETURN_IF_ERROR(product_of_vectors(operation));
    } else {
      operation.kind = ChainOperation::Kind::kProduct;
      TESSERA_TRY(operation.matrix, matrix(word));
      const Symbol& matrix = symbol(operation.matrix.symbol);
      if (matrix.memory != ChainMemoryKind::kMatrix) {
        return wrong_memory(place, word, matrix.name, matrix.memory);
      }
      if (!matrix.written) {
        return rule(place, fmt::format("'{}' holds nothing yet; give it contents, or move a matrix "
                                       "to it first",
                                       matrix.name));
      }
      const bool part = chain_.window.has_tap && matrix.taps() == 1;
      if (matrix.length != length_ ||
          (!part &&
           matrix.window != (chain_.window.used ? chain_.window.size : Extents{1, 1, 1}))) {
        return rule(place, fmt::format("'{}' has columns of {} and a window of {}, the chain's "
                                       "vectors have {} elements and a window of {}",
                                       matrix.name, matrix.length, extents_text(matrix.window),
                                       length_, extents_text(chain_.window.size)));
      }
      operation.length = matrix.rows;
    }
    if (chain_.window.size[0] > 1 && !chain_.window.has_tap &&
        length_ % native_vector(context_.chip) != 0) {
      return rule(place, fmt::format("a window over planes takes vectors of a multiple of {} "
                                     "elements, these have {}; go tap by tap",
                                     native_vector(context_.chip), length_));
    }
    length_ = operation.length;
    chain_.operations.push_back(std::move(operation));
    return {};
  }

  // The matrix is a row of vectors in the register file initial, one of its
  // rows each.
  Status product_of_vectors(ChainOperation& operation) {
    const Place place = lexer_.peek().place;
    TESSERA_TRY(const std::size_t index, parse_symbol(context_, "a matrix"));
    TESSERA_TRY(operation.operand, named_view(index, place));
    const VectorView& rows = operation.operand;
    if (rows.extents[0] != 1 || rows.extents[1] != 1 || chain_.window.used) {
      return rule(place, fmt::format("'{}' is {} vectors; a matrix of vectors is one row of them, "
                                     "and takes no window",
                                     symbol(index).name, extents_text(rows.extents)));
    }
    if (rows.length != length_ || !symbol(index).written) {
      return rule(place, fmt::format("'{}' has {}vectors of {} elements, the chain's have {}",
                                     symbol(index).name, symbol(index).written ? "" : "unwritten ",
                                     rows.length, length_));
    }
    operation.length = rows.extents[2];
    return {};
  }

  Status vector_operation(const Word& word, const Place& place) {
    if (!units_.take(word.part)) {
      return rule(place, fmt::format("'{}' finds no vector unit: '{}' has {}, "
                                     "each with one multiplier, one "
                                     "adder and one activation a chain; write "
                                     "to a register file here, and "
                                     "begin another chain",
                                     word.word, context_.chip.name, context_.chip.planar.count));
    }
    ChainOperation operation;
    operation.kind = word.kind;
    operation.word = word.word;
    operation.place = place;
    operation.unary = word.unary;
    operation.binary = word.binary;
    operation.swapped = word.swapped;
    operation.length = length_;
    if (word.kind == ChainOperation::Kind::kBinary) {
      TESSERA_TRY(operation.operand, operand(word.word, length_));
      TESSERA_RETURN_IF_ERROR(increments(operation.operand, word.word));
    }
    chain_.operations.push_back(std::move(operation));
    return {};
  }

  Status write(const Place& place) {
    if (chain_.moved_from || writes_matrix()) return write_matrix(place);
    if (chain_.window.used) TESSERA_RETURN_IF_ERROR(check_window_use());
    TESSERA_TRY(VectorView view, operand("write", length_));
    if (view.symbol != SIZE_MAX) {
      Symbol& target = symbol(view.symbol);
      if (target.memory == ChainMemoryKind::kDram &&
          (target.use == DramUse::kConstant || target.use == DramUse::kInput)) {
        return rule(
            view.place,
            fmt::format("'{}' is {}; a chain writes to an output or to the "
                        "workspace",
                        target.name, target.use == DramUse::kInput ? "an input" : "a constant"));
      }
      target.written = true;
      if (target.memory == ChainMemoryKind::kQueueOut) pass_queue(view);
    }
    TESSERA_RETURN_IF_ERROR(increments(view, "write"));
    chain_.writes.push_back(view);
    return {};
  }

  // Only a product takes a window as it is; what goes on without one takes a
  // tap inside the volume.
  Status check_window_use() const {
    const bool product =
        !chain_.operations.empty() && chain_.operations[0].kind == ChainOperation::Kind::kProduct;
    if (product) return {};
    if (!chain_.window.has_tap || chain_.window.pad != Extents{0, 0, 0}) {
      return rule(chain_.source.place,
                  "a window without a product takes one 'tap' and no pad: "
                  "nothing stands in for "
                  "what lies outside");
    }
    return {};
  }

  // What came from a queue and goes on to a matrix as it is.
  bool writes_matrix() const {
    const auto found = context_.names.find(lexer_.peek().text);
    return found != context_.names.end() &&
           context_.program.symbols[found->second].memory == ChainMemoryKind::kMatrix &&
           chain_.source.memory == ChainMemoryKind::kQueueIn && chain_.source.symbol != SIZE_MAX;
  }

  // A queue's [rows, columns] in one message.
  Status take_message(const Place& place, const Symbol& target) {
    const Symbol& queue = symbol(chain_.source.symbol);
    if (context_.chip.message.ports == 0) {
      return rule(place, fmt::format("'{}' brings a matrix, which takes a message processor, and "
                                     "'{}' has none; use a processor with message.ports, or a "
                                     "matrix in dram",
                                     queue.name, context_.chip.name));
    }
    if (!chain_.operations.empty() || chain_.window.used || !chain_.writes.empty() ||
        has_iterations_) {
      return rule(place, fmt::format("'{}' is a matrix; what a queue brings goes there as it is, "
                                     "behind the read",
                                     target.name));
    }
    if (queue.axes != 1 || chain_.source.extents != queue.extents ||
        queue.extents[2] != target.rows || queue.length != target.length || target.taps() != 1) {
      return rule(
          place, fmt::format("'{}' brings {} vectors of {}, '{}' is a matrix of {} x {}{}; "
                             "declare the queue as [{}, {}]",
                             queue.name, queue.volume(), queue.length, target.name, target.rows,
                             target.length, target.taps() == 1 ? "" : " with a window", target.rows,
                             target.length));
    }
    chain_.moved_from = MatrixUse{.symbol = chain_.source.symbol};
    return {};
  }

  Status write_matrix(const Place& place) {
    if (chain_.moved_to) return rule(place, "a matrix is written once");
    TESSERA_TRY(const MatrixUse to, matrix("write"));
    Symbol& target = symbol(to.symbol);
    if (target.memory != ChainMemoryKind::kMatrix) {
      return wrong_memory(place, "write", target.name, target.memory);
    }
    if (!chain_.moved_from) TESSERA_RETURN_IF_ERROR(take_message(place, target));
    const Symbol& from = symbol(chain_.moved_from->symbol);
    if (is_queue(from.memory)) return write_target(place, to);
    if (target.rows != from.rows || target.length != from.length || target.window != from.window) {
      return rule(
          place, fmt::format("'{}' is {} x {}, '{}' is {} x {}, or their windows differ", from.name,
                             from.rows, from.length, target.name, target.rows, target.length));
    }
    return write_target(place, to);
  }

  Status write_target(const Place& place, const MatrixUse& to) {
    Symbol& target = symbol(to.symbol);
    if (target.contents.kind != Contents::Kind::kNone) {
      return rule(place, fmt::format("'{}' has contents of its own, which stay", target.name));
    }
    target.written = true;
    chain_.moved_to = to;
    return {};
  }

  ParseContext& context_;
  Lexer& lexer_;
  VectorUnits units_;
  Chain chain_;
  bool has_read_ = false, has_iterations_ = false;
  bool raw_ = false;         // the source is a raw address
  std::int64_t length_ = 0;  // elements of the vectors on their way
};

}  // namespace

Status parse_chain(ParseContext& context, const Place& place) {
  TESSERA_TRY(Chain chain, ChainReader(context, place).run());
  context.program.chains.push_back(std::move(chain));
  return {};
}

}  // namespace tessera::firmware
