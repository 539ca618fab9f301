#include "tools/firmware_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/input_file.h"
#include "firmware/assembler.h"
#include "program/container.h"
#include "tessera/file.h"

namespace tessera::tools {
namespace {

constexpr std::int64_t kTextBytesMax = std::int64_t{256} << 20;

// A file that the text names.
Result<std::vector<std::byte>> read_beside(const std::filesystem::path& folder,
                                           const std::string& name,
                                           std::vector<std::string>* files) {
  const auto failed = [&](const Error& error) { return error.with_context("'" + name + "'"); };
  auto file = InputFile::open_below(folder.string(), name, "the text's folder");
  if (!file.ok()) return failed(file.error());
  auto bytes = file->read_rest();
  if (!bytes.ok()) return failed(bytes.error());
  if (files != nullptr) files->push_back((folder / name).string());
  return bytes;
}

}  // namespace

Result<program::Program> assemble_file(const std::string& path, const std::string& arch,
                                       bool streaming, std::vector<std::string>* files) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path, {.bytes_max = kTextBytesMax}));
  firmware::AssembleOptions options;
  options.arch = arch;
  options.streaming = streaming;
  options.read = [folder = std::filesystem::path(path).parent_path(),
                  files](const std::string& name) { return read_beside(folder, name, files); };
  return firmware::assemble({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path,
                            options);
}

Result<ChipConfig> chip_of(const program::Program& program, const std::string& arch) {
  TESSERA_TRY(ChipConfig chip, load_chip_config(arch.empty() ? program.chip_name : arch));
  if (chip.fingerprint() != program.chip_fingerprint) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the program is for '{}' with fingerprint {:#018x}, the architecture "
                    "'{}' has {:#018x}; give the right one with --arch",
                    program.chip_name, program.chip_fingerprint, chip.name, chip.fingerprint())};
  }
  return chip;
}

}  // namespace tessera::tools
