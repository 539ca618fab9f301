// Any bytes are a package or program, or an error; so is a good container with some bytes changed.
//
//   byte 0    even: the rest is a file
//             odd: byte 1 is a number of changes, each of a place and a byte; behind them the
//             contents of a container (program_target.h), which is written, and then changed
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "choices.h"
#include "package/container.h"
#include "package/container_file.h"

namespace {

using namespace tessera;  // a fuzz target

void check_file(std::span<const std::byte> file) {
  const auto package = package::parse_package(file, "f");
  const auto program = package::parse_program(file, "f");
  const auto cores = package::parse_card_program_alone(file, "f");
  TESSERA_CHECK(!program.ok() || (cores.ok() && cores->cores.size() == 1), "a program of no core");
  (void)package::parse_unlinked(file, "f").ok();
  TESSERA_CHECK(!package.ok() || !program.ok(), "both a package and a program");
  const package::FileKind kind = package::file_kind(file);
  TESSERA_CHECK(!package.ok() || kind == package::FileKind::kPackage, "a package of another kind");
  TESSERA_CHECK(!program.ok() || kind == package::FileKind::kProgram, "a program of another kind");
  for (const char* magic : {package::kPackageMagic, package::kProgramMagic}) {
    const auto places = package::check_container_head(magic, file, file.size(), "f");
    if (!places.ok()) continue;
    const auto front =
        package::open_container_front(file.first(places->section_offset), *places, "f");
    TESSERA_CHECK(!front.ok() || !*front || (*front)->size() == places->payload_bytes, "{} bytes",
                  (*front)->size());
    const auto opened = package::open_container(magic, file, "f");
    if (!opened.ok()) continue;
    TESSERA_CHECK(opened->payload.size() + opened->section.size() < file.size(), "{} and {} of {}",
                  opened->payload.size(), opened->section.size(), file.size());
  }
}

std::vector<std::byte> changed_container(fuzz::Choices& choices) {
  const std::int64_t changes = choices.below(6);
  std::vector<std::pair<std::uint64_t, std::byte>> patches;
  for (std::int64_t i = 0; i < changes; ++i) {
    patches.emplace_back(choices.one_in(4) ? choices.word() : choices.byte(),
                         static_cast<std::byte>(choices.byte()));
  }
  const bool package = choices.one_in(2);
  const std::uint64_t fingerprint = choices.word();
  const auto payload_bytes = static_cast<std::size_t>(choices.byte()) * 16;
  const auto contents = choices.rest();
  const std::size_t payload = std::min(payload_bytes, contents.size());
  std::vector<std::byte> file =
      package::write_container(package ? package::kPackageMagic : package::kProgramMagic,
                               {fingerprint, contents.first(payload), contents.subspan(payload)});
  for (const auto& [place, mask] : patches) file[place % file.size()] ^= mask;
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(std::as_bytes(std::span(data, size)));
  if (choices.byte() % 2 == 0) {
    check_file(choices.rest());
  } else {
    check_file(changed_container(choices));
  }
  return 0;
}
