#include "firmware/program_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "firmware/digest.h"
#include "firmware/integer_list.h"
#include "firmware/task_text.h"
#include "isa/encoding.h"

namespace tessera::firmware {
namespace {

using isa::HostStep;
using isa::LayerHint;
using isa::Program;
using isa::Segment;
using isa::TensorSlot;

constexpr std::size_t kAxesMax = 64;          // of a tensor
constexpr std::size_t kOriginsMax = 1 << 16;  // of a layer

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

Status append_hex(const Lexer& lexer, const Token& token, std::vector<std::byte>& bytes) {
  if (token.text.size() % 2 != 0) {
    return lexer.error(token.place, "an odd number of hexadecimal digits");
  }
  for (std::size_t i = 0; i < token.text.size(); i += 2) {
    const int high = digit(token.text[i]);
    const int low = digit(token.text[i + 1]);
    if (high < 0 || low < 0) {
      return lexer.error(token.place, "weights are written in the digits 0 to 9 and a to f");
    }
    bytes.push_back(static_cast<std::byte>(high << 4 | low));
  }
  return {};
}

Result<std::vector<std::byte>> parse_inline_weights(Lexer& lexer) {
  std::vector<std::byte> bytes;
  TESSERA_RETURN_IF_ERROR(lexer.expect("[", "in front of the weights"));
  while (!lexer.peek().is("]")) {
    const Token token = lexer.peek();
    TESSERA_TRY(const std::string digits, lexer.expect_string("weights in hexadecimal digits"));
    (void)digits;
    TESSERA_RETURN_IF_ERROR(append_hex(lexer, token, bytes));
    TESSERA_TRY(const bool more, lexer.accept(","));
    if (!more) break;
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect("]", "behind the weights"));
  return bytes;
}

Status expect_word(Lexer& lexer, const char* word) {
  TESSERA_TRY(const bool there, lexer.accept_name(word));
  if (!there) return lexer.unexpected(fmt::format("'{}'", word));
  return {};
}

class ProgramParser {
 public:
  ProgramParser(Lexer& lexer, const AssembleOptions& options) : lexer_(lexer), options_(options) {}

  Result<isa::CardProgram> run() {
    while (true) {
      TESSERA_RETURN_IF_ERROR(lexer_.skip_empty_lines());
      if (lexer_.peek().kind == TokenKind::kEndOfText) break;
      const Place place = lexer_.peek().place;
      TESSERA_TRY(const std::string word, lexer_.expect_name("a statement"));
      TESSERA_RETURN_IF_ERROR(statement(word, place));
    }
    close_core();
    TESSERA_RETURN_IF_ERROR(check_cores());
    return std::move(card_);
  }

 private:
  Status statement(const std::string& word, const Place& place) {
    if (word == "task") return task();
    if (word == "segment") return segment();
    if (word == "piece") return piece(place);
    if (word == "cores") return cores(place);
    if (word == "core") return core(place);
    if (word == "dropped") {
      TESSERA_TRY(program_.dependencies_dropped, bytes("the dependencies dropped"));
      return lexer_.expect_end_of_line("here");
    }
    if (!card_.cores.empty()) {
      return lexer_.error(
          place, fmt::format("'{}' stands with the first core; allowed behind 'core {}': dropped, "
                             "task, piece, segment, core",
                             word, card_.cores.size()));
    }
    return word == "layer" ? layer() : statement_of_all(word, place);
  }

  // What a program has once.
  Status statement_of_all(const std::string& word, const Place& place) {
    if (word == "input" || word == "output") {
      TESSERA_TRY(TensorSlot slot, tensor());
      (word == "input" ? program_.inputs : program_.outputs).push_back(std::move(slot));
    } else if (word == "chip") {
      TESSERA_TRY(program_.chip_name, lexer_.expect_string("the chip's name"));
      TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "fingerprint"));
      TESSERA_TRY(program_.chip_fingerprint, lexer_.expect_unsigned("a fingerprint"));
    } else if (word == "regions") {
      TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "workspace"));
      TESSERA_TRY(program_.workspace_bytes, bytes("the workspace"));
      TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "input"));
      TESSERA_TRY(program_.input_bytes, bytes("the inputs"));
      TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "output"));
      TESSERA_TRY(program_.output_bytes, bytes("the outputs"));
    } else if (word == "region") {
      isa::CoreRegion region;
      TESSERA_TRY(region.state_buffer, memory_range("buffer"));
      TESSERA_TRY(region.kernel_memory, memory_range("kernel"));
      program_.region = region;
    } else if (word == "weights") {
      TESSERA_TRY(program_.weights, parse_weights(lexer_, options_));
    } else {
      return lexer_.error(place,
                          fmt::format("'{}' is no statement of a program; allowed: chip, "
                                      "regions, region, cores, dropped, input, output, weights, "
                                      "layer, task, piece, segment, core",
                                      word));
    }
    return lexer_.expect_end_of_line("here");
  }

  // "3 memories [0, 1, 1] cards 2 images 1", behind `cores`.
  Status cores(const Place& place) {
    if (cores_ != 0 || !card_.cores.empty())
      return lexer_.error(place, "the cores stand there twice");
    cores_place_ = place;
    TESSERA_TRY(cores_, number("a number of cores", 2, isa::kSharingCoresMax));
    TESSERA_TRY(const bool memories, lexer_.accept_name("memories"));
    if (memories) {
      const Place list = lexer_.peek().place;
      TESSERA_TRY(const std::vector<std::int64_t> beside,
                  parse_integers(lexer_, "of the cores' memories", isa::kSharingCoresMax));
      for (const std::int64_t memory : beside) {
        if (memory < 0 || memory >= isa::kCardMemoriesMax) {
          return lexer_.error(
              list, fmt::format("memory {}, allowed 0 to {}", memory, isa::kCardMemoriesMax - 1));
        }
        card_.memory_of_core.push_back(static_cast<std::uint8_t>(memory));
      }
    }
    TESSERA_TRY(const bool cards, lexer_.accept_name("cards"));
    if (cards) {
      TESSERA_TRY(const std::size_t count, number("a number of cards", 1, cores_));
      card_.cards = static_cast<int>(count);
    }
    TESSERA_TRY(const bool images, lexer_.accept_name("images"));
    if (images) {
      TESSERA_TRY(const std::size_t count, number("a number of images", 1, cores_));
      card_.images = static_cast<int>(count);
    }
    return lexer_.expect_end_of_line("of the cores");
  }

  Result<std::size_t> number(const char* what, std::size_t least, std::size_t most) {
    const Place place = lexer_.peek().place;
    TESSERA_TRY(const std::uint64_t value, lexer_.expect_unsigned(what));
    if (value < least || value > most) {
      return lexer_.error(place, fmt::format("{}: {}, allowed {} to {}", what, value, least, most));
    }
    return static_cast<std::size_t>(value);
  }

  // The one in front is complete, and the next begins.
  Status core(const Place& place) {
    TESSERA_TRY(const std::uint64_t which, lexer_.expect_unsigned("the core's number"));
    close_core();
    if (which != card_.cores.size() || which >= cores_) {
      return lexer_.error(
          place,
          cores_ == 0
              ? "a program for several cores says 'cores' and their number first"
              : fmt::format("core {}; cores 1 to {} stand one behind the other, and the next is {}",
                            which, cores_ - 1, card_.cores.size()));
    }
    const Program& first = card_.cores.front();
    program_.chip_fingerprint = first.chip_fingerprint;
    program_.chip_name = first.chip_name;
    program_.workspace_bytes = first.workspace_bytes;
    program_.input_bytes = first.input_bytes;
    program_.output_bytes = first.output_bytes;
    return lexer_.expect_end_of_line("of a core");
  }

  void close_core() {
    if (!program_.pieces.empty()) program_.pieces.resize(program_.tasks.size());
    card_.cores.push_back(std::move(program_));
    program_ = {};
  }

  // Of a program for one core there is nothing to check: it is what the text says, and still to be verified.
  Status check_cores() {
    if (cores_ == 0) return {};
    if (card_.cores.size() != cores_) {
      return lexer_.error(cores_place_,
                          fmt::format("{} cores; the text has {}", cores_, card_.cores.size()));
    }
    if (card_.cores.front().region) {
      return lexer_.error(cores_place_, "a region of a core in a program for several");
    }
    const Status fits = isa::check_cores(card_);
    if (!fits.ok()) return lexer_.error(cores_place_, fits.error().message);
    return {};
  }

  // A size or count, bounded as a container's is.
  Result<std::int64_t> bytes(const char* what) {
    constexpr std::int64_t kMost = std::int64_t{1} << 48;
    const Place place = lexer_.peek().place;
    TESSERA_TRY(const std::int64_t value, lexer_.expect_integer(what));
    if (value < 0 || value > kMost) {
      return lexer_.error(place, fmt::format("{}: {}, allowed 0..{}", what, value, kMost));
    }
    return value;
  }

  // "buffer 0 to 98304": bytes of a partition of that memory.
  Result<isa::MemoryRange> memory_range(const char* memory) {
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, memory));
    TESSERA_TRY(const std::int64_t first, bytes("the region's first byte"));
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "to"));
    const Place place = lexer_.peek().place;
    TESSERA_TRY(const std::int64_t last, bytes("the region's end"));
    if (last < first) {
      return lexer_.error(place, fmt::format("a region from {} to {}", first, last));
    }
    return isa::MemoryRange{first, last - first};
  }

  Result<TensorSlot> tensor() {
    TensorSlot slot;
    TESSERA_TRY(slot.name, lexer_.expect_string("the tensor's name"));
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "tensor"));
    Place place = lexer_.peek().place;
    TESSERA_TRY(const std::int64_t number, lexer_.expect_integer("the tensor's number"));
    if (number < INT32_MIN || number > INT32_MAX) {
      return lexer_.error(place, "a tensor's number fits in 32 bits");
    }
    slot.tensor = static_cast<std::int32_t>(number);
    place = lexer_.peek().place;
    TESSERA_TRY(const std::string format, lexer_.expect_name("a format"));
    const auto known = format_from_name(format);
    if (!known) return lexer_.error(place, fmt::format("'{}' is no format", format));
    slot.format = *known;
    TESSERA_TRY(slot.dims, parse_integers(lexer_, "of a tensor's dimensions", kAxesMax));
    TESSERA_TRY(const bool blocks, lexer_.accept_name("blocks_of"));
    if (blocks) {
      TESSERA_TRY(slot.dense_dims, parse_integers(lexer_, "of the matrix in blocks", kAxesMax));
    }
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "at"));
    place = lexer_.peek().place;
    TESSERA_TRY(const std::string region, lexer_.expect_name("a region"));
    const auto* const found = std::find(std::begin(kRegionNames), std::end(kRegionNames), region);
    if (found == std::end(kRegionNames)) {
      return lexer_.error(place, fmt::format("'{}' is no region; allowed: {}", region,
                                             fmt::join(kRegionNames, ", ")));
    }
    slot.address.base = static_cast<isa::BaseIndex>(found - std::begin(kRegionNames));
    TESSERA_RETURN_IF_ERROR(lexer_.expect("+", "and an offset in bytes"));
    TESSERA_TRY(slot.address.offset, lexer_.expect_unsigned("an offset in bytes"));
    return slot;
  }

  Status layer() {
    LayerHint hint;
    TESSERA_TRY(hint.name, lexer_.expect_string("the layer's name"));
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "kind"));
    TESSERA_TRY(hint.kind, lexer_.expect_string("the layer's kind"));
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "dims"));
    TESSERA_TRY(hint.output_dims, parse_integers(lexer_, "of a layer's dimensions", kAxesMax));
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "macs"));
    TESSERA_TRY(hint.macs, lexer_.expect_integer("the layer's multiply-accumulates"));
    TESSERA_TRY(const bool origins, lexer_.accept_name("origins"));
    if (origins) {
      TESSERA_RETURN_IF_ERROR(lexer_.expect("[", "in front of the origins"));
      while (!lexer_.peek().is("]")) {
        TESSERA_TRY(std::string name, lexer_.expect_string("an origin"));
        hint.origins.push_back(std::move(name));
        if (hint.origins.size() > kOriginsMax) return lexer_.unexpected("fewer origins");
        TESSERA_TRY(const bool more, lexer_.accept(","));
        if (!more) break;
      }
      TESSERA_RETURN_IF_ERROR(lexer_.expect("]", "behind the origins"));
    }
    program_.hints.push_back(std::move(hint));
    return lexer_.expect_end_of_line("of a layer");
  }

  Status task() {
    TESSERA_TRY(TaskText text, parse_task(lexer_));
    if (!text.has_id) text.task.id = static_cast<isa::TaskId>(program_.tasks.size());
    append_task(program_, std::move(text.task), std::move(text.stream));
    if (program_.stream.size() > UINT32_MAX) {
      return lexer_.error(text.place, "the descriptors have more than 4 GiB together");
    }
    return {};
  }

  // Of the task in front of it.
  Status piece(const Place& place) {
    if (program_.tasks.empty()) return lexer_.error(place, "a piece stands behind its task");
    TESSERA_TRY(const std::vector<std::int64_t> at, parse_integers(lexer_, "of a piece", 7));
    const bool fits = std::all_of(
        at.begin(), at.end(), [](std::int64_t value) { return value >= 0 && value <= UINT32_MAX; });
    if (at.size() != 7 || !fits) {
      return lexer_.error(place,
                          "a piece has 7 numbers of 32 bits: image, channel, row, column, "
                          "input channel, window row, window column");
    }
    const auto number = [&](std::size_t i) { return static_cast<std::uint32_t>(at[i]); };
    program_.pieces.resize(program_.tasks.size());
    program_.pieces.back() = {.known = true,
                              .image = number(0),
                              .channel = number(1),
                              .row = number(2),
                              .column = number(3),
                              .input_channel = number(4),
                              .window_row = number(5),
                              .window_column = number(6)};
    return lexer_.expect_end_of_line("of a piece");
  }

  Status segment() {
    const Place place = lexer_.peek().place;
    Segment segment;
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "tasks"));
    TESSERA_TRY(const std::uint64_t first, lexer_.expect_unsigned("the first task"));
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "to"));
    TESSERA_TRY(const std::uint64_t last, lexer_.expect_unsigned("the task behind the last"));
    if (first > last || last > program_.tasks.size()) {
      return lexer_.error(place, fmt::format("tasks {} to {} of {}; a segment stands behind its "
                                             "tasks",
                                             first, last, program_.tasks.size()));
    }
    segment.task_first = static_cast<std::uint32_t>(first);
    segment.task_last = static_cast<std::uint32_t>(last);
    TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("of a segment"));
    while (true) {
      TESSERA_RETURN_IF_ERROR(lexer_.skip_empty_lines());
      TESSERA_TRY(const bool end, lexer_.accept_name("end"));
      if (end) break;
      const Place at = lexer_.peek().place;
      TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "host_step"));
      if (!card_.cores.empty()) {
        return lexer_.error(at, "host steps stand with the first core's segments");
      }
      TESSERA_TRY(HostStep step, host_step());
      segment.host_steps.push_back(std::move(step));
    }
    program_.segments.push_back(std::move(segment));
    return lexer_.expect_end_of_line("behind 'end'");
  }

  Result<HostStep> host_step() {
    HostStep step;
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "node"));
    const Place place = lexer_.peek().place;
    TESSERA_TRY(const std::int64_t node, lexer_.expect_integer("the node"));
    if (node < INT32_MIN || node > INT32_MAX) {
      return lexer_.error(place, "a node's number fits in 32 bits");
    }
    step.node = static_cast<std::int32_t>(node);
    TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("of a host step"));
    while (true) {
      TESSERA_RETURN_IF_ERROR(lexer_.skip_empty_lines());
      TESSERA_TRY(const bool end, lexer_.accept_name("end"));
      if (end) break;
      const Place at = lexer_.peek().place;
      TESSERA_TRY(const std::string word, lexer_.expect_name("reads, gives, graph or end"));
      if (word == "graph") {
        TESSERA_TRY(step.body, lexer_.expect_string("the node's text"));
        TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("of a graph"));
        continue;
      }
      if (word == "constant") {
        TESSERA_RETURN_IF_ERROR(constant(step.constants));
        continue;
      }
      if (word != "reads" && word != "gives") {
        return lexer_.error(at, fmt::format("'{}' in a host step; allowed: reads, gives, graph, "
                                            "constant, end",
                                            word));
      }
      TESSERA_TRY(TensorSlot slot, tensor());
      (word == "reads" ? step.inputs : step.outputs).push_back(std::move(slot));
      TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("of a tensor"));
    }
    TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("behind 'end'"));
    if (step.body.empty()) step.constants.clear();
    if (step.body.empty() || !options_.check_step) return step;
    const Status status = options_.check_step(step);
    if (!status.ok()) return lexer_.error(place, status.error().message);
    return step;
  }

  // A constant operand of a host step.
  Status constant(std::vector<isa::StepConstant>& constants) {
    const Place place = lexer_.peek().place;
    auto tensor = std::make_shared<Tensor>();
    TESSERA_TRY(const std::string name, lexer_.expect_string("the constant's name"));
    TESSERA_TRY(const std::string format, lexer_.expect_name("a format"));
    const auto known = format_from_name(format);
    if (!known) return lexer_.error(place, fmt::format("'{}' is no format", format));
    tensor->format = *known;
    TESSERA_TRY(tensor->dims, parse_integers(lexer_, "of a tensor's dimensions", kAxesMax));
    TESSERA_RETURN_IF_ERROR(expect_word(lexer_, "bytes"));
    TESSERA_TRY(const std::uint64_t count, lexer_.expect_unsigned("a number of bytes"));
    TESSERA_TRY(tensor->bytes, parse_inline_weights(lexer_));
    std::int64_t bytes = format_bytes(tensor->format);
    for (const std::int64_t extent : tensor->dims) {
      if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
        return lexer_.error(place, "a constant's dimensions are out of range");
      }
    }
    if (tensor->bytes.size() != count || static_cast<std::uint64_t>(bytes) != count) {
      return lexer_.error(place,
                          fmt::format("constant {} has {} bytes, its shape {}, the text says "
                                      "{}",
                                      in_quotes(name), tensor->bytes.size(), bytes, count));
    }
    const auto before =
        std::find_if(constants.begin(), constants.end(),
                     [&name](const isa::StepConstant& other) { return other.name == name; });
    if (before == constants.end()) {
      constants.push_back({name, std::move(tensor)});
    } else {
      before->value = std::move(tensor);
    }
    return lexer_.expect_end_of_line("of a constant");
  }

  Lexer& lexer_;
  const AssembleOptions& options_;
  isa::CardProgram card_;  // the cores in front
  Program program_;        // of the core whose statements stand here
  std::size_t cores_ = 0;  // that the text says; 0: nothing, one
  Place cores_place_ = {};
};

}  // namespace

void append_task(Program& program, isa::TaskDescriptor task, std::vector<std::byte> stream) {
  if (stream.empty()) stream = isa::encode(task);
  program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
  program.stream.insert(program.stream.end(), stream.begin(), stream.end());
  program.tasks.push_back(std::move(task));
}

Result<std::vector<std::byte>> parse_weights(Lexer& lexer, const AssembleOptions& options) {
  const Place place = lexer.peek().place;
  TESSERA_TRY(const bool file, lexer.accept_name("file"));
  bool section = false;
  if (!file) {
    TESSERA_TRY(section, lexer.accept_name("of"));
  }
  std::vector<std::byte> bytes;
  std::string path;
  if (file || section) {
    TESSERA_TRY(path, lexer.expect_string("a file"));
    const ReadFile& read = section ? options.read_section : options.read;
    if (!read) return lexer.error(place, fmt::format("'{}': no files can be read here", path));
    auto contents = read(path);
    if (!contents.ok()) return lexer.error(place, contents.error().message);
    bytes = std::move(contents).value();
  }
  TESSERA_RETURN_IF_ERROR(expect_word(lexer, "bytes"));
  TESSERA_TRY(const std::uint64_t count, lexer.expect_unsigned("a number of bytes"));
  if (!file && !section) {
    TESSERA_TRY(bytes, parse_inline_weights(lexer));
  }
  // Behind a program's weights lie constants of its host steps.
  if (section && bytes.size() > count) bytes.resize(count);
  if (bytes.size() != count) {
    return lexer.error(
        place, fmt::format("{} bytes of weights are there, the text says {}", bytes.size(), count));
  }
  if (file || section) {
    TESSERA_RETURN_IF_ERROR(expect_word(lexer, "sha256"));
    TESSERA_TRY(const std::string digest, lexer.expect_string("the digest"));
    if (digest != sha256_text(bytes)) {
      return lexer.error(place, fmt::format("'{}' has another digest than the text says; it is not "
                                            "the file that was written with it",
                                            path));
    }
  }
  return bytes;
}

Result<isa::CardProgram> parse_program_text(Lexer& lexer, const AssembleOptions& options) {
  return ProgramParser(lexer, options).run();
}

}  // namespace tessera::firmware
