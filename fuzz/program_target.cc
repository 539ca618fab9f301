#include "program_target.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "arch/chip_config.h"
#include "base/check.h"
#include "graph/build.h"
#include "link/link.h"
#include "program/container.h"
#include "program/container_file.h"
#include "program/encoding.h"
#include "program/verify.h"

namespace tessera::fuzz {
namespace {

constexpr std::size_t kHeadBytes = 5;

ContainerOutcome verified(const program::Program& program, const ChipConfig& chip,
                          ContainerOutcome otherwise) {
  return program::verify_program(program, chip).ok() ? ContainerOutcome::kVerified : otherwise;
}

}  // namespace

ContainerOutcome container_target(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadBytes) return ContainerOutcome::kRefused;
  const bool package = (bytes[0] & std::byte{1}) == std::byte{0};
  std::uint32_t size = 0;
  std::memcpy(&size, bytes.data() + 1, sizeof(size));
  const auto contents = bytes.subspan(kHeadBytes);
  const std::size_t payload = std::min<std::size_t>(size, contents.size());
  const ChipConfig chip;
  const std::vector<std::byte> file = program::write_container(
      package ? program::kPackageMagic : program::kProgramMagic,
      {chip.fingerprint(), contents.first(payload), contents.subspan(payload)});
  if (!package) {
    const auto read = program::parse_program(file, "fuzz.tprog");
    if (!read.ok()) return ContainerOutcome::kRefused;
    return verified(*read, chip, ContainerOutcome::kParsed);
  }
  const auto read = program::parse_package(file, "fuzz.tpkg");
  if (!read.ok()) return ContainerOutcome::kRefused;
  const auto linked = link::link(*read, chip, {});
  if (!linked.ok()) return ContainerOutcome::kParsed;
  return verified(*linked, chip, ContainerOutcome::kLinked);
}

std::vector<std::byte> container_input(std::span<const std::byte> file) {
  const bool package = program::file_kind(file) == program::FileKind::kPackage;
  const auto opened = program::open_container(
      package ? program::kPackageMagic : program::kProgramMagic, file, "corpus");
  if (!opened.ok()) return {};
  std::vector<std::byte> bytes(kHeadBytes);
  bytes[0] = std::byte(package ? 0 : 1);
  const auto size = static_cast<std::uint32_t>(opened->payload.size());
  std::memcpy(bytes.data() + 1, &size, sizeof(size));
  bytes.insert(bytes.end(), opened->payload.begin(), opened->payload.end());
  bytes.insert(bytes.end(), opened->section.begin(), opened->section.end());
  return bytes;
}

bool descriptor_target(std::span<const std::byte> bytes) {
  std::size_t consumed = 0;
  const auto task = program::decode(bytes, consumed);
  if (!task.ok()) return false;
  TESSERA_CHECK(consumed <= bytes.size(), "{} of {} bytes", consumed, bytes.size());
  const std::vector<std::byte> once = program::encode(*task);
  const auto again = program::decode(once, consumed);
  TESSERA_CHECK(again.ok(), "{}", again.error().message);
  TESSERA_CHECK(program::encode(*again) == once, "task {} changed on the way", task->id);
  return true;
}

bool graph_text_target(const std::string& text) {
  const auto graph = graph::parse(text, {});
  return graph.ok() && graph::verify(*graph).ok();
}

}  // namespace tessera::fuzz
