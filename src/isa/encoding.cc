// Layout of a descriptor, in little-endian 32-bit words:
//
//   word 0   magic 'T' 'D' | version << 16
//   word 1   words in the whole descriptor
//   word 2   task id            word 3  network
//   word 4   engine | configuration kind << 8 | switch allowed << 16 | extended << 17 | remote << 18
//   word 5   layer              word 6..8  images, rows, rows per step
//   word 9   dependencies | with `remote` set: those on other cores << 16
//   word 10  register runs
//   version 2 only; with `extended` set:
//   word 11  words of the extended header, 1 to 7; those left out hold their defaults
//   word 12  first engine | engines << 8 | sharing << 16
//   word 13  traps | debug << 8 | tag << 16
//   word 14  first register of the input surface | of the output surface << 16   0xFFFF: implied
//   word 15  base index of the source | of the destination << 8   0xFF: implied
//            | 1 + memory of the source << 16 | of the destination << 24   0: the core's own
//   word 16  number of the share   word 17, 18  its cores, low and high
//   then dependencies, 5 words each: task, numerator, denominator, offset low, offset high; those on
//   other cores with the core in front, 6 words each
//   then runs: register | count << 16, followed by count values
//
// Registers that are not written hold the configuration's defaults. A header of defaults only, of a
// task that waits for no other core, is written as version 1, without the words from 11 on.
#include "isa/encoding.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "isa/registers.h"

namespace tessera::isa {
namespace {

constexpr std::uint32_t kMagic = 0x4454;  // "TD"
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kVersionExtended = 2;
constexpr std::uint32_t kHeaderWords = 11;
constexpr std::uint32_t kExtendedBit = 1u << 17;  // of word 4
constexpr std::uint32_t kRemoteBit = 1u << 18;    // likewise
constexpr std::uint32_t kCoresMax = 1 << 16;
constexpr std::size_t kExtendedWords = 7;
constexpr std::uint32_t kDependencyWords = 5;
constexpr std::uint32_t kDependenciesMax = 4096;

std::vector<std::uint32_t> config_registers(const TaskConfig& config) {
  return std::visit(
      [](const auto& fields) {
        using T = std::decay_t<decltype(fields)>;
        if constexpr (std::is_same_v<T, CopyTask>)
          return to_registers(FlatCopyTask(fields));
        else
          return to_registers(fields);
      },
      config);
}

TaskConfig default_config(std::size_t kind) {
  switch (kind) {
    case 0:
      return NeuralTask{};
    case 1:
      return PlanarTask{};
    case 2:
      return TransferTask{};
    case 3:
      return CopyTask{};
    case 4:
      return KernelTask{};
    default:
      return MessageTask{};
  }
}

void append_runs(const std::vector<std::uint32_t>& values, const std::vector<std::uint32_t>& resets,
                 std::vector<std::uint32_t>& words) {
  std::uint32_t runs = 0;
  for (std::size_t i = 0; i < values.size();) {
    if (values[i] == resets[i]) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    // A gap of one default register is cheaper written than skipped.
    while (end < values.size() &&
           (values[end] != resets[end] ||
            (end + 1 < values.size() && values[end + 1] != resets[end + 1]))) {
      ++end;
    }
    words.push_back(static_cast<std::uint32_t>(i | (end - i) << 16));
    words.insert(words.end(), values.begin() + static_cast<std::ptrdiff_t>(i),
                 values.begin() + static_cast<std::ptrdiff_t>(end));
    ++runs;
    i = end;
  }
  words[10] = runs;
}

Error bad(const std::string& what) {
  return Error{ErrorCode::kInvalidModel, "task descriptor: " + what};
}

// Words of one descriptor, with every read checked.
class WordReader {
 public:
  explicit WordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t words() const { return bytes_.size() / 4; }
  std::uint32_t at(std::size_t index) const {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes_.data() + index * 4, 4);
    return word;
  }

 private:
  std::span<const std::byte> bytes_;
};

using ExtendedWords = std::array<std::uint32_t, kExtendedWords>;

// A memory in 8 bits: one more than its number; 0 is the core's own.
std::uint32_t memory_word(std::uint8_t memory) { return (memory + 1u) & 0xFF; }
std::uint8_t memory_of(std::uint32_t word) { return static_cast<std::uint8_t>((word & 0xFF) - 1); }

ExtendedWords extended_words(const TaskHeader& header) {
  return {header.engines.first | std::uint32_t{header.engines.count} << 8 |
              static_cast<std::uint32_t>(header.sharing) << 16,
          header.traps | std::uint32_t{header.debug} << 8 | std::uint32_t{header.tag} << 16,
          header.surfaces.input | std::uint32_t{header.surfaces.output} << 16,
          header.bases.source | std::uint32_t{header.bases.destination} << 8 |
              memory_word(header.memories.source) << 16 |
              memory_word(header.memories.destination) << 24,
          header.share.number,
          static_cast<std::uint32_t>(header.share.cores),
          static_cast<std::uint32_t>(header.share.cores >> 32)};
}

// Words up to the last one that is not the default.
std::size_t extended_count(const ExtendedWords& words) {
  const ExtendedWords defaults = extended_words({});
  std::size_t count = kExtendedWords;
  while (count > 0 && words[count - 1] == defaults[count - 1]) --count;
  return count;
}

// Bits of each word that have a meaning.
constexpr ExtendedWords kExtendedBits = {
    0x0003FFFF, 0xFFFF0000 | TaskDebug::kAll << 8 | Traps::kAll,
    0xFFFFFFFF, 0xFFFFFFFF,
    0xFFFFFFFF, 0xFFFFFFFF,
    0xFFFFFFFF};

// The first word from `words` on (word 12 of the descriptor) that means nothing, or "".
std::string bad_extended_word(const ExtendedWords& words) {
  for (std::size_t i = 0; i < kExtendedWords; ++i) {
    if ((words[i] & ~kExtendedBits[i]) != 0) {
      return fmt::format("word {} is {:#010x}, of which bits {:#010x} are known",
                         kHeaderWords + 1 + i, words[i], kExtendedBits[i]);
    }
  }
  const std::uint32_t first = words[0] & 0xFF, count = words[0] >> 8 & 0xFF;
  const std::uint32_t sharing = words[0] >> 16;
  if (sharing >= kSharingNames.size()) {
    return fmt::format("sharing {}, allowed 0..{}", sharing, kSharingNames.size() - 1);
  }
  if (count == 0 && first != 0) {
    return fmt::format("engines from {} on without their number, which is 0 for all, from 0 on",
                       first);
  }
  for (const std::uint32_t base : {words[3] & 0xFF, words[3] >> 8 & 0xFF}) {
    if (base < kBaseIndexCount || base == HeaderBases::kImplied) continue;
    return fmt::format("base index {}, allowed 0..{} or {}", base, kBaseIndexCount - 1,
                       HeaderBases::kImplied);
  }
  return "";
}

// The extended header of a descriptor of version 2; `next` gets the word behind it.
Status read_extended(const WordReader& reader, TaskDescriptor& task, std::size_t& next) {
  const std::size_t there = reader.words() > kHeaderWords ? reader.at(kHeaderWords) : 0;
  if (there < 1 || there > kExtendedWords || kHeaderWords + 1 + there > reader.words()) {
    return bad(fmt::format("task {}: an extended header of {} words, allowed 1..{}", task.id, there,
                           kExtendedWords));
  }
  ExtendedWords words = extended_words({});
  for (std::size_t i = 0; i < there; ++i) words[i] = reader.at(kHeaderWords + 1 + i);
  const std::string error = bad_extended_word(words);
  if (!error.empty()) return bad(fmt::format("task {}: {}", task.id, error));
  TaskHeader& header = task.header;
  header.engines = {static_cast<std::uint8_t>(words[0]), static_cast<std::uint8_t>(words[0] >> 8)};
  header.sharing = static_cast<Sharing>(words[0] >> 16);
  header.traps = static_cast<std::uint8_t>(words[1]);
  header.debug = static_cast<std::uint8_t>(words[1] >> 8);
  header.tag = static_cast<std::uint16_t>(words[1] >> 16);
  header.surfaces = {static_cast<std::uint16_t>(words[2]),
                     static_cast<std::uint16_t>(words[2] >> 16)};
  header.bases = {static_cast<std::uint8_t>(words[3]), static_cast<std::uint8_t>(words[3] >> 8)};
  header.memories = {memory_of(words[3] >> 16), memory_of(words[3] >> 24)};
  header.share = {words[4], std::uint64_t{words[6]} << 32 | words[5]};
  next = kHeaderWords + 1 + there;
  return {};
}

Result<TaskDescriptor> read_header(const WordReader& reader) {
  if (reader.words() < kHeaderWords) {
    return bad(fmt::format("{} words, the header has {}", reader.words(), kHeaderWords));
  }
  const std::uint32_t version = reader.at(0) >> 16;
  if ((reader.at(0) & 0xFFFF) != kMagic || version < kVersion || version > kVersionExtended) {
    return bad(fmt::format("word 0 is {:#010x}, allowed {:#010x} and {:#010x}", reader.at(0),
                           kMagic | kVersion << 16, kMagic | kVersionExtended << 16));
  }
  TaskDescriptor task;
  task.id = reader.at(2);
  if (((reader.at(4) & (kExtendedBit | kRemoteBit)) != 0) != (version == kVersionExtended)) {
    return bad(fmt::format(
        "task {}: bits 17 and 18 of word 4 are {} and {} in version {}; one of them is "
        "set in version {} only",
        task.id, reader.at(4) >> 17 & 1, reader.at(4) >> 18 & 1, version, kVersionExtended));
  }
  task.network = reader.at(3);
  const std::uint32_t engine = reader.at(4) & 0xFF;
  if (engine >= kEngineKindCount) {
    return bad(
        fmt::format("task {}: engine {}, allowed 0..{}", task.id, engine, kEngineKindCount - 1));
  }
  task.engine = static_cast<EngineKind>(engine);
  task.switch_allowed = (reader.at(4) >> 16 & 1) != 0;
  task.layer = reader.at(5);
  task.bands = {reader.at(6), reader.at(7), reader.at(8)};
  if (task.bands.images == 0 || task.bands.rows == 0 || task.bands.rows_per_step == 0) {
    return bad(fmt::format("task {}: bands of {} images x {} rows by {}, each must be at least 1",
                           task.id, task.bands.images, task.bands.rows, task.bands.rows_per_step));
  }
  return task;
}

// Applies the register runs that begin at word `next`; returns the word after them.
Result<std::size_t> read_runs(const WordReader& reader, std::size_t next, std::size_t end,
                              std::vector<std::uint32_t>& registers) {
  for (std::uint32_t run = 0; run < reader.at(10); ++run) {
    if (next >= end) return bad(fmt::format("register run {} lies behind the end", run));
    const std::uint32_t first = reader.at(next) & 0xFFFF;
    const std::uint32_t count = reader.at(next) >> 16;
    ++next;
    if (count == 0 || first + count > registers.size() || next + count > end) {
      return bad(fmt::format("register run {}: registers {}..{} of {}, {} words left", run, first,
                             first + count, registers.size(), end - next));
    }
    for (std::uint32_t i = 0; i < count; ++i) registers[first + i] = reader.at(next + i);
    next += count;
  }
  return next;
}

// Turns registers back into the configuration held by `config`.
std::string read_config(const std::vector<std::uint32_t>& registers, TaskConfig& config) {
  return std::visit(
      [&registers](auto& fields) -> std::string {
        using T = std::decay_t<decltype(fields)>;
        RegisterReader reader(registers);
        if constexpr (std::is_same_v<T, CopyTask>) {
          FlatCopyTask flat;
          visit_fields(reader, flat);
          if (flat.axes > kCopyAxesMax) return fmt::format("{} axes, allowed 0..8", flat.axes);
          fields = flat.to_task();
        } else {
          visit_fields(reader, fields);
        }
        return reader.error();
      },
      config);
}

void append_dependency(const Dependency& dependency, std::vector<std::uint32_t>& words) {
  const auto offset = static_cast<std::uint64_t>(dependency.offset);
  words.insert(words.end(),
               {dependency.task, static_cast<std::uint32_t>(dependency.numerator),
                static_cast<std::uint32_t>(dependency.denominator),
                static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32)});
}

Dependency read_dependency(const WordReader& reader, std::size_t at) {
  return {.task = reader.at(at),
          .numerator = static_cast<std::int32_t>(reader.at(at + 1)),
          .denominator = static_cast<std::int32_t>(reader.at(at + 2)),
          .offset = static_cast<std::int64_t>(std::uint64_t{reader.at(at + 4)} << 32 |
                                              reader.at(at + 3))};
}

// The dependencies that begin at word `next`, which is moved on, behind them; all before word `end`.
Status read_dependencies(const WordReader& reader, std::size_t end, TaskDescriptor& task,
                         std::size_t& next) {
  const bool remote_there = (reader.at(4) & kRemoteBit) != 0;
  const std::size_t count = remote_there ? reader.at(9) & 0xFFFF : reader.at(9);
  const std::size_t remote = remote_there ? reader.at(9) >> 16 : 0;
  if (end > reader.words() || count > kDependenciesMax || remote > kDependenciesMax ||
      next + count * kDependencyWords + remote * (kDependencyWords + 1) > end) {
    return bad(
        fmt::format("task {}: {} words with {} dependencies and {} on other cores, {} words "
                    "are there",
                    task.id, end, count, remote, reader.words()));
  }
  if (remote_there && remote == 0) {
    return bad(
        fmt::format("task {}: bit 18 of word 4 is 1, and there is no dependency on another "
                    "core",
                    task.id));
  }
  for (std::size_t i = 0; i < count + remote; ++i, next += kDependencyWords) {
    const std::uint32_t core = i < count ? 0 : reader.at(next++);
    const Dependency dependency = read_dependency(reader, next);
    if (dependency.denominator <= 0) {
      return bad(fmt::format("task {}: dependency {} has denominator {}, allowed 1..", task.id, i,
                             dependency.denominator));
    }
    if (core >= kCoresMax) {
      return bad(fmt::format("task {}: dependency {} is on core {}, allowed 0 to {}", task.id, i,
                             core, kCoresMax - 1));
    }
    i < count ? task.dependencies.push_back(dependency) : task.remote.push_back({core, dependency});
  }
  return {};
}

}  // namespace

std::vector<std::uint32_t> task_number_words(std::span<const std::byte> bytes) {
  const WordReader reader(bytes);
  std::vector<std::uint32_t> words = {2};
  const std::uint32_t flags = reader.at(4);
  const std::uint32_t count = (flags & kRemoteBit) != 0 ? reader.at(9) & 0xFFFF : reader.at(9);
  std::uint32_t next = kHeaderWords;
  if ((flags & kExtendedBit) != 0) next += 1 + reader.at(kHeaderWords);
  for (std::uint32_t i = 0; i < count; ++i, next += kDependencyWords) words.push_back(next);
  return words;
}

void encode_stream(Program& program) {
  for (const TaskDescriptor& task : program.tasks) {
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    const std::vector<std::byte> bytes = encode(task);
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
  }
}

std::uint32_t descriptor_version(std::span<const std::byte> bytes) {
  return bytes.size() < 4 ? 0 : WordReader(bytes).at(0) >> 16;
}

std::vector<std::byte> encode(const TaskDescriptor& task) {
  std::vector<std::uint32_t> words(kHeaderWords, 0);
  const ExtendedWords extended = extended_words(task.header);
  const std::size_t extended_there = extended_count(extended);
  const bool remote = !task.remote.empty();
  words[0] = kMagic | (extended_there > 0 || remote ? kVersionExtended : kVersion) << 16;
  words[2] = task.id;
  words[3] = task.network;
  words[4] = static_cast<std::uint32_t>(task.engine) |
             static_cast<std::uint32_t>(task.config.index()) << 8 |
             static_cast<std::uint32_t>(task.switch_allowed) << 16 |
             (extended_there > 0 ? kExtendedBit : 0) | (remote ? kRemoteBit : 0);
  words[5] = task.layer;
  words[6] = task.bands.images;
  words[7] = task.bands.rows;
  words[8] = task.bands.rows_per_step;
  words[9] = static_cast<std::uint32_t>(task.dependencies.size() | task.remote.size() << 16);
  if (extended_there > 0) {
    words.push_back(static_cast<std::uint32_t>(extended_there));
    words.insert(words.end(), extended.begin(),
                 extended.begin() + static_cast<std::ptrdiff_t>(extended_there));
  }
  for (const Dependency& dependency : task.dependencies) append_dependency(dependency, words);
  for (const RemoteDependency& dependency : task.remote) {
    words.push_back(dependency.core);
    append_dependency(dependency.on, words);
  }
  append_runs(config_registers(task.config), config_registers(default_config(task.config.index())),
              words);
  words[1] = static_cast<std::uint32_t>(words.size());
  std::vector<std::byte> bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

Result<TaskDescriptor> decode(std::span<const std::byte> bytes, std::size_t& consumed) {
  const WordReader reader(bytes);
  TESSERA_TRY(TaskDescriptor task, read_header(reader));
  std::size_t next = kHeaderWords;
  if ((reader.at(4) & kExtendedBit) != 0) {
    TESSERA_RETURN_IF_ERROR(read_extended(reader, task, next));
  }
  const std::size_t end = reader.at(1);
  TESSERA_RETURN_IF_ERROR(read_dependencies(reader, end, task, next));
  const std::size_t kind = reader.at(4) >> 8 & 0xFF;
  if (kind >= std::variant_size_v<TaskConfig>) {
    return bad(fmt::format("task {}: configuration kind {}, allowed 0..{}", task.id, kind,
                           std::variant_size_v<TaskConfig> - 1));
  }
  task.config = default_config(kind);
  std::vector<std::uint32_t> registers = config_registers(task.config);
  for (const std::uint16_t surface : {task.header.surfaces.input, task.header.surfaces.output}) {
    if (surface < registers.size() || surface == SurfaceRegisters::kImplied) continue;
    return bad(
        fmt::format("task {}: a surface at register {} of {}", task.id, surface, registers.size()));
  }
  TESSERA_TRY(const std::size_t after, read_runs(reader, next, end, registers));
  if (after != end) return bad(fmt::format("task {}: {} words too many", task.id, end - after));
  const std::string error = read_config(registers, task.config);
  if (!error.empty()) return bad(fmt::format("task {}: {}", task.id, error));
  consumed = end * 4;
  return task;
}

}  // namespace tessera::isa
