#include "network/firmware_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "arch/architecture_file.h"
#include "base/input_file.h"
#include "firmware/assembler.h"
#include "package/container.h"
#include "package/container_file.h"
#include "package/host_step.h"
#include "tessera/file.h"

namespace tessera::network {
namespace {

constexpr std::int64_t kTextBytesMax = std::int64_t{256} << 20;
// Of a file of another name: so far its first word may stand behind comments.
constexpr std::int64_t kHeadBytes = std::int64_t{64} << 10;

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

// What reads a program or package, of which the text takes the section.
firmware::ReadFile sections_of(firmware::ReadFile read) {
  return [read = std::move(read)](const std::string& name) -> Result<std::vector<std::byte>> {
    TESSERA_TRY(const std::vector<std::byte> bytes, read(name));
    const bool package = package::file_kind(bytes) == package::FileKind::kPackage;
    TESSERA_TRY(const auto opened,
                package::open_container(package ? package::kPackageMagic : package::kProgramMagic,
                                        bytes, name));
    return std::vector<std::byte>(opened.section.begin(), opened.section.end());
  };
}

// `assemble`: of firmware/assembler.h.
template <typename Assemble>
auto assemble_file_by(Assemble&& assemble, const std::string& path, const std::string& arch,
                      bool streaming, std::vector<std::string>* files, std::string* steps_queue)
    -> decltype(assemble({}, path, {})) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path, {.bytes_max = kTextBytesMax}));
  firmware::AssembleOptions options;
  options.arch = arch;
  options.streaming = streaming;
  options.steps_queue = steps_queue;
  options.check_step = package::settle_host_step;
  options.read = [folder = std::filesystem::path(path).parent_path(),
                  files](const std::string& name) { return read_beside(folder, name, files); };
  options.read_section = sections_of(options.read);
  return assemble({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, options);
}

}  // namespace

Result<isa::Program> assemble_file(const std::string& path, const std::string& arch, bool streaming,
                                   std::vector<std::string>* files, std::string* steps_queue) {
  return assemble_file_by(firmware::assemble, path, arch, streaming, files, steps_queue);
}

Result<isa::CardProgram> assemble_card_file(const std::string& path, const std::string& arch,
                                            bool streaming, std::vector<std::string>* files,
                                            std::string* steps_queue) {
  return assemble_file_by(firmware::assemble_card, path, arch, streaming, files, steps_queue);
}

Result<isa::Program> assemble_bytes(std::span<const std::byte> text, const std::string& name,
                                    const std::string& arch, const std::string& folder) {
  if (std::ssize(text) > kTextBytesMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' has {} bytes; a firmware text has at most {}", name, text.size(),
                             kTextBytesMax)};
  }
  firmware::AssembleOptions options;
  options.arch = arch;
  options.check_step = package::settle_host_step;
  options.read = [&folder](const std::string& file) -> Result<std::vector<std::byte>> {
    if (!folder.empty()) return read_beside(folder, file, nullptr);
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' cannot be read, because the text did not come from a folder; "
                             "give one (LoadOptions::folder)",
                             file)};
  };
  options.read_section = sections_of(options.read);
  return firmware::assemble({reinterpret_cast<const char*>(text.data()), text.size()}, name,
                            options);
}

bool is_firmware_text(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with(';')) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  return text.starts_with("firmware ") || text.starts_with("program ");
}

bool is_program_file(const std::string& path) {
  if (path.ends_with(".tasm")) return true;
  const auto file = InputFile::open(path);
  if (!file.ok()) return false;
  std::vector<std::byte> head(
      static_cast<std::size_t>(std::clamp(file->size(), std::int64_t{0}, kHeadBytes)));
  if (!file->read_at(0, head).ok()) return false;
  return package::file_kind(head) == package::FileKind::kProgram || is_firmware_text(head);
}

Result<ChipConfig> chip_of(const isa::Program& program, const std::string& arch) {
  TESSERA_TRY(ChipConfig chip, load_chip_config(arch.empty() ? program.chip_name : arch));
  if (fingerprint(chip) != program.chip_fingerprint) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the program is for '{}' with fingerprint {:#018x}, the architecture "
                    "'{}' has {:#018x}; choose that one (--arch, LoadOptions::arch)",
                    program.chip_name, program.chip_fingerprint, chip.name, fingerprint(chip))};
  }
  return chip;
}

}  // namespace tessera::network
