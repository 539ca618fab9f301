#include "firmware/task_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "arch/cost.h"
#include "firmware/register_fields.h"
#include "firmware/task_chain.h"
#include "isa/encoding.h"

namespace tessera::firmware {
namespace {

using isa::Dependency;
using isa::EngineKind;
using isa::RemoteDependency;
using isa::TaskDescriptor;

constexpr std::size_t kDependenciesMax = 4096;  // of a descriptor

// ---- writing ----

// `of`: "core 3 " of another core's task.
std::string dependency_text(const Dependency& d, const std::string& of = "") {
  if (d.numerator == 0 && d.denominator == 1) {
    return fmt::format("  after {}task {}: {} steps\n", of, d.task, d.offset);
  }
  return fmt::format("  after {}task {}: ({} j {} {}) / {} steps\n", of, d.task, d.numerator,
                     d.offset < 0 ? "-" : "+",
                     d.offset < 0 ? 0 - static_cast<std::uint64_t>(d.offset)
                                  : static_cast<std::uint64_t>(d.offset),
                     d.denominator);
}

// What the head says beyond the nest: nothing of defaults.
std::string header_text(const isa::TaskHeader& header) {
  std::string out;
  const isa::EngineSet& set = header.engines;
  if (!set.all()) out += fmt::format(" engines {} to {}", set.first, set.first + set.count);
  if (header.sharing != isa::Sharing::kAutomatic) {
    out += fmt::format(" {}", isa::kSharingNames[static_cast<std::size_t>(header.sharing)]);
  }
  for (std::size_t i = 0; i < isa::Traps::kNames.size(); ++i) {
    if ((header.traps >> i & 1) != 0) out += fmt::format(" trap {}", isa::Traps::kNames[i]);
  }
  for (std::size_t i = 0; i < isa::TaskDebug::kNames.size(); ++i) {
    if ((header.debug >> i & 1) != 0) out += fmt::format(" debug {}", isa::TaskDebug::kNames[i]);
  }
  if (header.tag != 0) out += fmt::format(" tag {}", header.tag);
  constexpr std::uint16_t kNoRegister = isa::SurfaceRegisters::kImplied;
  const isa::SurfaceRegisters& surfaces = header.surfaces;
  if (surfaces.input != kNoRegister) out += fmt::format(" input_register {}", surfaces.input);
  if (surfaces.output != kNoRegister) out += fmt::format(" output_register {}", surfaces.output);
  const isa::HeaderBases& bases = header.bases;
  constexpr std::uint8_t kNoBase = isa::HeaderBases::kImplied;
  if (bases.source != kNoBase) out += fmt::format(" source {}", kRegionNames[bases.source]);
  if (bases.destination != kNoBase) {
    out += fmt::format(" destination {}", kRegionNames[bases.destination]);
  }
  constexpr std::uint8_t kOwn = isa::TaskMemories::kOwn;
  const isa::TaskMemories& memories = header.memories;
  if (memories.source != kOwn) out += fmt::format(" from_memory {}", memories.source);
  if (memories.destination != kOwn) out += fmt::format(" to_memory {}", memories.destination);
  const isa::LoadShare& share = header.share;
  if (share != isa::LoadShare{})
    out += fmt::format(" share {} cores {}", share.number, share.cores);
  return out;
}

// The block loop of an identity product, the first blocks one by one, as a comment.
std::string blocks_comment(const isa::NeuralTask& task) {
  constexpr std::int64_t kListed = 8;
  const KernelImageShape& image = task.product.image;
  const MatrixExtents matrix{task.output.columns, task.moving.columns};
  const std::int64_t p = image.channels;
  if (p < 1 || image.rows < 1 || image.columns < 1) return "";
  // Registers of a task that was never checked may say anything.
  constexpr std::int64_t kSizeMax = INT32_MAX;
  if (std::max({p, image.rows, image.columns, matrix.channels, matrix.columns}) > kSizeMax)
    return "";
  const auto cut = [&](const MatrixExtents& part) {
    return transpose_blocks(part, {p, image.rows, image.columns});
  };
  const TransposeBlocks all = cut(matrix);
  std::string out =
      fmt::format("  ; transposes {} x {} {} a row: {} blocks of {} x {}, {} passes of {} x {}\n",
                  matrix.channels, matrix.columns, format_name(task.moving.format), all.blocks, p,
                  p, all.passes, image.rows, image.columns);
  std::int64_t listed = 0;
  for (std::int64_t c = 0; c < matrix.channels && listed < kListed; c += p) {
    for (std::int64_t x = 0; x < matrix.columns && listed < kListed; x += p, ++listed) {
      const MatrixExtents part{std::min(p, matrix.channels - c), std::min(p, matrix.columns - x)};
      out += fmt::format("  ;   block channels {}..{}, columns {}..{}: passes {}\n", c,
                         c + part.channels - 1, x, x + part.columns - 1, cut(part).passes);
    }
  }
  if (listed < all.blocks) out += fmt::format("  ;   and {} blocks more\n", all.blocks - listed);
  return out;
}

std::string words_text(std::span<const std::byte> stream) {
  std::string out = "  words [";
  for (std::size_t i = 0; i + 4 <= stream.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, stream.data() + i, 4);
    out += i == 0 ? "" : i % 32 == 0 ? ",\n    " : ", ";
    out += fmt::format("{:#x}", word);
  }
  return out + "]\n";
}

// ---- reading ----

template <typename T>
Result<T> bounded(Lexer& lexer, const char* what, std::uint64_t most) {
  const Place place = lexer.peek().place;
  TESSERA_TRY(const std::uint64_t value, lexer.expect_unsigned(what));
  if (value > most) {
    return lexer.error(place, fmt::format("{} is {}, allowed 0..{}", what, value, most));
  }
  return static_cast<T>(value);
}

template <typename Names>
Result<std::size_t> index_of(Lexer& lexer, const char* what, const Names& names) {
  const Place place = lexer.peek().place;
  TESSERA_TRY(const std::string name, lexer.expect_name(what));
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (name == names[i]) return i;
  }
  return lexer.error(place, fmt::format("'{}' is no {}; allowed: {}", name, what,
                                        fmt::join(std::begin(names), std::end(names), ", ")));
}

// "3: 7 steps" or "3: (1 j + 0) / 1 steps", behind `after task`.
Result<Dependency> parse_dependency(Lexer& lexer) {
  Dependency d;
  TESSERA_TRY(d.task, bounded<isa::TaskId>(lexer, "a task's number", UINT32_MAX));
  TESSERA_RETURN_IF_ERROR(lexer.expect(":", "behind the task"));
  TESSERA_TRY(const bool line, lexer.accept("("));
  if (line) {
    const Place place = lexer.peek().place;
    TESSERA_TRY(const std::int64_t numerator, lexer.expect_integer("a numerator"));
    if (numerator < INT32_MIN || numerator > INT32_MAX) {
      return lexer.error(place, "a numerator fits in 32 bits");
    }
    d.numerator = static_cast<std::int32_t>(numerator);
    TESSERA_TRY(const bool step, lexer.accept_name("j"));
    if (!step) return lexer.unexpected("'j', the step, as in (1 j + 0) / 1");
    TESSERA_TRY(const bool plus, lexer.accept("+"));
    if (!plus && !lexer.peek().is("-")) return lexer.unexpected("'+' or '-' and the offset");
    TESSERA_TRY(d.offset, lexer.expect_integer("an offset"));
    TESSERA_RETURN_IF_ERROR(lexer.expect(")", "behind the offset"));
    TESSERA_RETURN_IF_ERROR(lexer.expect("/", "in front of the denominator"));
    TESSERA_TRY(d.denominator, bounded<std::int32_t>(lexer, "a denominator", INT32_MAX));
    if (d.denominator == 0) return lexer.error(place, "a denominator is at least 1");
  } else {
    TESSERA_TRY(d.offset, lexer.expect_integer("a number of steps"));
  }
  TESSERA_TRY(const bool steps, lexer.accept_name("steps"));
  if (!steps) return lexer.unexpected("'steps'");
  TESSERA_RETURN_IF_ERROR(lexer.expect_end_of_line("behind 'steps'"));
  return d;
}

// "task 3: 7 steps" or, of another core's, "core 2 task 3: 7 steps", behind `after`.
Status parse_after(Lexer& lexer, TaskDescriptor& descriptor) {
  TESSERA_TRY(const bool elsewhere, lexer.accept_name("core"));
  std::uint32_t core = 0;
  if (elsewhere) {
    TESSERA_TRY(core, bounded<std::uint32_t>(lexer, "a core's number", UINT16_MAX));
  }
  TESSERA_TRY(const bool task, lexer.accept_name("task"));
  if (!task) return lexer.unexpected("'task' and its number");
  TESSERA_TRY(const Dependency dependency, parse_dependency(lexer));
  if (elsewhere) {
    descriptor.remote.push_back({core, dependency});
  } else {
    descriptor.dependencies.push_back(dependency);
  }
  return {};
}

// "1 x 28 by 4"
Status parse_bands(Lexer& lexer, isa::Bands& bands) {
  TESSERA_TRY(bands.images, bounded<std::uint32_t>(lexer, "the number of images", UINT32_MAX));
  TESSERA_TRY(const bool times, lexer.accept_name("x"));
  if (!times) return lexer.unexpected("'x' and the number of rows, as in 1 x 28 by 4");
  TESSERA_TRY(bands.rows, bounded<std::uint32_t>(lexer, "the number of rows", UINT32_MAX));
  TESSERA_TRY(const bool by, lexer.accept_name("by"));
  if (!by) return lexer.unexpected("'by' and the rows of a step, as in 1 x 28 by 4");
  TESSERA_TRY(bands.rows_per_step, bounded<std::uint32_t>(lexer, "the rows a step", UINT32_MAX));
  if (bands.images == 0 || bands.rows == 0 || bands.rows_per_step == 0) {
    return lexer.error(lexer.peek().place, "images, rows and rows a step are at least 1");
  }
  return {};
}

constexpr char kHeadWords[] =
    "layer, bands, network, no_switch, engines, automatic, broadcast, unicast, trap, debug, tag, "
    "input_register, output_register, source, destination, from_memory, to_memory, share";

// One word of the extended header and what follows it.
Status parse_header_word(Lexer& lexer, const std::string& word, const Place& place,
                         isa::TaskHeader& header) {
  for (std::size_t i = 0; i < isa::kSharingNames.size(); ++i) {
    if (word != isa::kSharingNames[i]) continue;
    header.sharing = static_cast<isa::Sharing>(i);
    return {};
  }
  constexpr std::uint64_t kRegisterMax = isa::SurfaceRegisters::kImplied - 1;
  if (word == "engines") return parse_engine_set(lexer, header.engines);
  if (word == "trap") {
    TESSERA_TRY(const std::size_t bit, index_of(lexer, "exception", isa::Traps::kNames));
    header.traps = static_cast<std::uint8_t>(header.traps | 1u << bit);
  } else if (word == "debug") {
    TESSERA_TRY(const std::size_t bit, index_of(lexer, "debug request", isa::TaskDebug::kNames));
    header.debug = static_cast<std::uint8_t>(header.debug | 1u << bit);
  } else if (word == "tag") {
    TESSERA_TRY(header.tag, bounded<std::uint16_t>(lexer, "a tag", UINT16_MAX));
  } else if (word == "input_register") {
    TESSERA_TRY(header.surfaces.input, bounded<std::uint16_t>(lexer, "a register", kRegisterMax));
  } else if (word == "output_register") {
    TESSERA_TRY(header.surfaces.output, bounded<std::uint16_t>(lexer, "a register", kRegisterMax));
  } else if (word == "source" || word == "destination") {
    TESSERA_TRY(const std::size_t base, index_of(lexer, "region", kRegionNames));
    (word == "source" ? header.bases.source : header.bases.destination) =
        static_cast<std::uint8_t>(base);
  } else if (word == "from_memory" || word == "to_memory") {
    constexpr std::uint64_t kMemoryMax = isa::TaskMemories::kOwn - 1;
    TESSERA_TRY(const auto memory, bounded<std::uint8_t>(lexer, "a memory", kMemoryMax));
    (word == "from_memory" ? header.memories.source : header.memories.destination) = memory;
  } else if (word == "share") {
    TESSERA_TRY(header.share.number, bounded<std::uint32_t>(lexer, "a share", UINT32_MAX));
    TESSERA_TRY(const bool cores, lexer.accept_name("cores"));
    if (!cores)
      return lexer.error(place, "behind the number of a share stands 'cores' and their set");
    TESSERA_TRY(header.share.cores, bounded<std::uint64_t>(lexer, "a set of cores", UINT64_MAX));
  } else {
    return lexer.error(
        place, fmt::format("'{}' is no part of a task's head; allowed: {}", word, kHeadWords));
  }
  return {};
}

// The first line, up to its end.
Status parse_head(Lexer& lexer, TaskText& text, std::size_t& config_kind) {
  static constexpr const char* kEngines[] = {"neural", "planar",     "load",       "store",
                                             "kernel", "message_in", "message_out"};
  TaskDescriptor& task = text.task;
  if (lexer.peek().kind == TokenKind::kInteger) {
    text.has_id = true;
    TESSERA_TRY(task.id, bounded<isa::TaskId>(lexer, "a task's number", UINT32_MAX));
  }
  TESSERA_TRY(const std::size_t engine, index_of(lexer, "engine", kEngines));
  task.engine = static_cast<EngineKind>(engine);
  TESSERA_TRY(config_kind, index_of(lexer, "configuration", kConfigNames));
  while (!lexer.peek().ends_line()) {
    const Place place = lexer.peek().place;
    TESSERA_TRY(const std::string word, lexer.expect_name("a part of the task's head"));
    if (word == "layer") {
      TESSERA_TRY(task.layer, bounded<std::uint32_t>(lexer, "a layer's number", UINT32_MAX));
    } else if (word == "network") {
      TESSERA_TRY(task.network, bounded<std::uint32_t>(lexer, "a network's number", UINT32_MAX));
    } else if (word == "no_switch") {
      task.switch_allowed = false;
    } else if (word == "bands") {
      TESSERA_RETURN_IF_ERROR(parse_bands(lexer, task.bands));
    } else {
      TESSERA_RETURN_IF_ERROR(parse_header_word(lexer, word, place, task.header));
    }
  }
  return lexer.expect_end_of_line("of the task's head");
}

Status parse_words(Lexer& lexer, std::vector<std::byte>& stream) {
  TESSERA_RETURN_IF_ERROR(lexer.expect("[", "in front of the words"));
  while (!lexer.peek().is("]")) {
    TESSERA_TRY(const auto word, bounded<std::uint32_t>(lexer, "a word", UINT32_MAX));
    const auto bytes = std::as_bytes(std::span(&word, 1));
    stream.insert(stream.end(), bytes.begin(), bytes.end());
    TESSERA_TRY(const bool more, lexer.accept(","));
    if (!more) break;
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect("]", "behind the words"));
  return lexer.expect_end_of_line("behind the words");
}

// Words stand beside the chain and must mean the same.
Status check_words(const Lexer& lexer, const TaskText& text) {
  std::size_t consumed = 0;
  const auto decoded = isa::decode(text.stream, consumed);
  if (!decoded.ok()) return lexer.error(text.place, "the words: " + decoded.error().message);
  if (consumed != text.stream.size()) {
    return lexer.error(text.place, "the words hold more than one descriptor");
  }
  if (isa::encode(*decoded) != isa::encode(text.task)) {
    return lexer.error(text.place,
                       "the words are not those of this task; leave the line out, and they are "
                       "made from the chain");
  }
  return {};
}

}  // namespace

Status parse_engine_set(Lexer& lexer, isa::EngineSet& engines) {
  TESSERA_TRY(engines.first, bounded<std::uint8_t>(lexer, "the first engine", UINT8_MAX));
  TESSERA_TRY(const bool to, lexer.accept_name("to"));
  if (!to) return lexer.unexpected("'to' and one past the last engine, as in engines 2 to 5");
  const Place place = lexer.peek().place;
  TESSERA_TRY(const auto last,
              bounded<std::uint32_t>(lexer, "one past the last engine", 2 * UINT8_MAX));
  if (last <= engines.first || last - engines.first > UINT8_MAX) {
    return lexer.error(place, fmt::format("engines {} to {}: 1 to {} engines, the last excluded",
                                          engines.first, last, UINT8_MAX));
  }
  engines.count = static_cast<std::uint8_t>(last - engines.first);
  return {};
}

std::string task_text(const TaskDescriptor& task, std::span<const std::byte> stream) {
  std::string out =
      fmt::format("task {} {} {} layer {} bands {} x {} by {}", task.id,
                  engine_kind_name(task.engine), kConfigNames[task.config.index()], task.layer,
                  task.bands.images, task.bands.rows, task.bands.rows_per_step);
  if (task.network != 0) out += fmt::format(" network {}", task.network);
  if (!task.switch_allowed) out += " no_switch";
  out += header_text(task.header);
  out += "\n";
  for (const Dependency& dependency : task.dependencies) out += dependency_text(dependency);
  for (const RemoteDependency& remote : task.remote) {
    out += dependency_text(remote.on, fmt::format("core {} ", remote.core));
  }
  const auto* neural = std::get_if<isa::NeuralTask>(&task.config);
  if (neural != nullptr && neural->transpose) out += blocks_comment(*neural);
  out += chain_text(task.engine, task.config);
  const std::vector<std::byte> encoded = isa::encode(task);
  if (!std::ranges::equal(encoded, stream)) out += words_text(stream);
  return out + "end\n";
}

Result<TaskText> parse_task(Lexer& lexer) {
  TaskText text;
  text.place = lexer.peek().place;
  std::size_t config_kind = 0;
  TESSERA_RETURN_IF_ERROR(parse_head(lexer, text, config_kind));
  TaskChainParser chain(config_kind);
  while (true) {
    TESSERA_RETURN_IF_ERROR(lexer.skip_empty_lines());
    const Place place = lexer.peek().place;
    TESSERA_TRY(const std::string word, lexer.expect_name("a line of the task, or 'end'"));
    if (word == "end") break;
    if (word == "after") {
      TESSERA_RETURN_IF_ERROR(parse_after(lexer, text.task));
      if (std::max(text.task.dependencies.size(), text.task.remote.size()) > kDependenciesMax) {
        return lexer.error(place, fmt::format("more than {} dependencies", kDependenciesMax));
      }
      text.has_dependencies = true;
    } else if (word == "words") {
      TESSERA_RETURN_IF_ERROR(parse_words(lexer, text.stream));
    } else {
      TESSERA_RETURN_IF_ERROR(chain.line(lexer, word, place));
    }
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect_end_of_line("behind 'end'"));
  auto config = config_of(config_kind, chain.registers());
  if (!config.ok()) return lexer.error(text.place, config.error().message);
  text.task.config = std::move(config).value();
  if (text.task.header != isa::TaskHeader{}) {
    std::size_t consumed = 0;
    const auto decoded = isa::decode(isa::encode(text.task), consumed);
    if (!decoded.ok()) return lexer.error(text.place, decoded.error().message);
  }
  if (!text.stream.empty()) TESSERA_RETURN_IF_ERROR(check_words(lexer, text));
  return text;
}

}  // namespace tessera::firmware
