// Layout of a descriptor, in little-endian 32-bit words:
//
//   word 0   magic 'T' 'D' | version << 16
//   word 1   words in the whole descriptor
//   word 2   task id            word 3  network
//   word 4   engine | configuration kind << 8 | switch allowed << 16
//   word 5   layer              word 6..8  images, rows, rows per step
//   word 9   dependencies       word 10    register runs
//   then dependencies, 5 words each: task, numerator, denominator, offset low, offset high
//   then runs: register | count << 16, followed by count values
//
// Registers that are not written hold the configuration's defaults.
#include "isa/encoding.h"

#include <fmt/format.h>

#include <cstring>

#include "isa/registers.h"

namespace tessera::isa {
namespace {

constexpr std::uint32_t kMagic = 0x4454;  // "TD"
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kHeaderWords = 11;
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
    default:
      return KernelTask{};
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

Result<TaskDescriptor> read_header(const WordReader& reader) {
  if (reader.words() < kHeaderWords) {
    return bad(fmt::format("{} words, the header has {}", reader.words(), kHeaderWords));
  }
  if ((reader.at(0) & 0xFFFF) != kMagic || reader.at(0) >> 16 != kVersion) {
    return bad(
        fmt::format("word 0 is {:#010x}, allowed {:#010x}", reader.at(0), kMagic | kVersion << 16));
  }
  TaskDescriptor task;
  task.id = reader.at(2);
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

}  // namespace

std::vector<std::byte> encode(const TaskDescriptor& task) {
  std::vector<std::uint32_t> words(kHeaderWords, 0);
  words[0] = kMagic | kVersion << 16;
  words[2] = task.id;
  words[3] = task.network;
  words[4] = static_cast<std::uint32_t>(task.engine) |
             static_cast<std::uint32_t>(task.config.index()) << 8 |
             static_cast<std::uint32_t>(task.switch_allowed) << 16;
  words[5] = task.layer;
  words[6] = task.bands.images;
  words[7] = task.bands.rows;
  words[8] = task.bands.rows_per_step;
  words[9] = static_cast<std::uint32_t>(task.dependencies.size());
  for (const Dependency& dependency : task.dependencies) {
    const auto offset = static_cast<std::uint64_t>(dependency.offset);
    words.insert(words.end(),
                 {dependency.task, static_cast<std::uint32_t>(dependency.numerator),
                  static_cast<std::uint32_t>(dependency.denominator),
                  static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32)});
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
  const std::size_t end = reader.at(1);
  const std::size_t dependencies = reader.at(9);
  if (end > reader.words() || dependencies > kDependenciesMax ||
      kHeaderWords + dependencies * kDependencyWords > end) {
    return bad(fmt::format("task {}: {} words with {} dependencies, {} words are there", task.id,
                           end, dependencies, reader.words()));
  }
  std::size_t next = kHeaderWords;
  for (std::size_t i = 0; i < dependencies; ++i, next += kDependencyWords) {
    Dependency dependency;
    dependency.task = reader.at(next);
    dependency.numerator = static_cast<std::int32_t>(reader.at(next + 1));
    dependency.denominator = static_cast<std::int32_t>(reader.at(next + 2));
    dependency.offset =
        static_cast<std::int64_t>(std::uint64_t{reader.at(next + 4)} << 32 | reader.at(next + 3));
    if (dependency.denominator <= 0) {
      return bad(fmt::format("task {}: dependency {} has denominator {}, allowed 1..", task.id, i,
                             dependency.denominator));
    }
    task.dependencies.push_back(dependency);
  }
  const std::size_t kind = reader.at(4) >> 8 & 0xFF;
  if (kind >= std::variant_size_v<TaskConfig>) {
    return bad(fmt::format("task {}: configuration kind {}, allowed 0..{}", task.id, kind,
                           std::variant_size_v<TaskConfig> - 1));
  }
  task.config = default_config(kind);
  std::vector<std::uint32_t> registers = config_registers(task.config);
  TESSERA_TRY(const std::size_t after, read_runs(reader, next, end, registers));
  if (after != end) return bad(fmt::format("task {}: {} words too many", task.id, end - after));
  const std::string error = read_config(registers, task.config);
  if (!error.empty()) return bad(fmt::format("task {}: {}", task.id, error));
  consumed = end * 4;
  return task;
}

}  // namespace tessera::isa
