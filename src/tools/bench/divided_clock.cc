// An architecture is named by a file, so the divided one is written into a file that lives as long
// as the model is loaded.
#include "tools/bench/divided_clock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"

namespace tessera::tools {
namespace {

ChipConfig divided(ChipConfig chip, int divider) {
  chip.name += fmt::format("_divided_by_{}", divider);
  chip.neural.clock_thousandths /= divider;
  chip.neural.task_start_cycles *= divider;
  chip.planar.clock_thousandths /= divider;
  chip.planar.task_start_cycles *= divider;
  chip.planar.latency_cycles *= divider;
  chip.dma.task_start_cycles *= divider;
  chip.task_manager.dispatch_cycles *= divider;
  return chip;
}

class TemporaryFile {
 public:
  static Result<TemporaryFile> with_text(const std::string& text) {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error) / "tessera-arch-XXXXXX.toml";
    const int file = error ? -1 : mkstemps(path.data(), 5);
    if (file < 0) {
      return Error{ErrorCode::kUnavailable, fmt::format("cannot make the file '{}'", path)};
    }
    const bool whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    TemporaryFile made(path);
    if (!whole) {
      return Error{ErrorCode::kUnavailable, fmt::format("cannot write the file '{}'", path)};
    }
    return made;
  }
  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) std::remove(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace

Result<Network> load_with_divided_clock(const ModelArguments& arguments, int divider) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arguments.arch));
  TESSERA_TRY(const TemporaryFile file, TemporaryFile::with_text(describe(divided(chip, divider))));
  ModelArguments slower = arguments;
  slower.arch = file.path();
  return slower.load();
}

}  // namespace tessera::tools
