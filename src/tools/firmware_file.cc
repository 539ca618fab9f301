#include "tools/firmware_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "firmware/assembler.h"
#include "program/container.h"

namespace tessera::tools {

Result<program::Program> assemble_file(const std::string& path, const std::string& arch,
                                       bool streaming) {
  TESSERA_TRY(const std::vector<std::byte> bytes, program::read_file(path));
  firmware::AssembleOptions options;
  options.arch = arch;
  options.streaming = streaming;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  options.read = [folder](const std::string& name) {
    return program::read_file((folder / name).string());
  };
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
