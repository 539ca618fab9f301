#include "program_target.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "base/check.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "isa/encoding.h"
#include "isa/verify.h"
#include "link/link.h"
#include "link/templates.h"
#include "package/container.h"
#include "package/container_file.h"
#include "package/weight_pool.h"

namespace tessera::fuzz {
namespace {

constexpr std::size_t kHeadBytes = 5;

// A file with these contents, a right digest and the fingerprint of the default chip.
std::vector<std::byte> container_with(std::span<const std::byte> bytes, bool package) {
  std::uint32_t size = 0;
  std::memcpy(&size, bytes.data() + 1, sizeof(size));
  const auto contents = bytes.subspan(kHeadBytes);
  const std::size_t payload = std::min<std::size_t>(size, contents.size());
  return package::write_container(
      package ? package::kPackageMagic : package::kProgramMagic,
      {fingerprint(ChipConfig()), contents.first(payload), contents.subspan(payload)});
}

bool is_package(std::span<const std::byte> bytes) {
  return (bytes[0] & std::byte{1}) == std::byte{0};
}

ContainerOutcome verified(const isa::Program& program, ContainerOutcome otherwise) {
  return isa::verify_program(program, ChipConfig()).ok() ? ContainerOutcome::kVerified : otherwise;
}

ContainerOutcome verified(const isa::CardProgram& program, ContainerOutcome otherwise) {
  if (program.cores.size() == 1) return verified(program.cores.front(), otherwise);
  return isa::verify_card_program(program, ChipConfig()).ok() ? ContainerOutcome::kVerified
                                                              : otherwise;
}

// For as many bytes of a program as a fuzzer has time for.
class Zeros {
 public:
  Result<std::vector<std::byte>> operator()(const isa::SectionPart& part) {
    constexpr std::uint64_t kMost = 1 << 16;
    if (part.bytes > kMost || part.bytes > left_) {
      return Error{ErrorCode::kInvalidArgument, "too much"};
    }
    left_ -= part.bytes;
    return std::vector<std::byte>(part.bytes);
  }

 private:
  std::uint64_t left_ = 1 << 20;
};

// Frames without a graph link and are proved, or are refused, too.
void link_alone(std::span<const std::byte> file) {
  const auto unlinked = package::parse_unlinked(file, "fuzz.tpkg");
  if (!unlinked.ok()) return;
  const auto linked = link::link(*unlinked, ChipConfig(), {});
  if (linked.ok()) (void)verified(*linked, ContainerOutcome::kParsed);
}

// What the package has for several cores is filled in and proved, or is refused.
void fill_prepared(const package::Package& package) {
  constexpr std::uint64_t kWordsMax = 1 << 20, kWeightsMax = 1 << 20;
  if (package.prepared == nullptr) return;
  const isa::PreparedPrograms& all = *package.prepared;
  for (const auto& prepared : all.programs) {
    if (prepared->stream_bytes() > 4 * kWordsMax || prepared->tasks() > kWordsMax) continue;
    auto program = link::program_of(all.templates, *prepared);
    if (!program.ok()) continue;
    isa::Program& first = program->cores.front();
    if (first.weights.size() > kWeightsMax) continue;
    first.weights = package::region_of_parts(package.weights.bytes(), all.kernels.bytes(),
                                             first.weights.parts());
    (void)verified(*program, ContainerOutcome::kParsed);
  }
}

}  // namespace

ContainerOutcome container_target(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadBytes) return ContainerOutcome::kRefused;
  const std::vector<std::byte> file = container_with(bytes, is_package(bytes));
  if (!is_package(bytes)) {
    auto read = package::parse_card_program_alone(file, "fuzz.tprog");
    const bool one = read.ok() && read->cores.size() == 1;
    TESSERA_CHECK(package::parse_program_alone(file, "fuzz.tprog").ok() == one,
                  "a program for several cores that one core runs");
    if (!read.ok()) return ContainerOutcome::kRefused;
    // What it refers to is there, as far as it is small.
    const auto outcome = verified(*read, ContainerOutcome::kParsed);
    if (!package::read_elsewhere(read->cores.front(), "fuzz.tprog", Zeros()).ok()) return outcome;
    return verified(*read, ContainerOutcome::kParsed);
  }
  link_alone(file);
  const auto read = package::parse_package(file, "fuzz.tpkg");
  if (!read.ok()) return ContainerOutcome::kRefused;
  fill_prepared(*read);
  const auto linked = link::link(*read, ChipConfig(), {});
  if (!linked.ok()) return ContainerOutcome::kParsed;
  return verified(*linked, ContainerOutcome::kLinked);
}

Result<isa::Program> program_of(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadBytes) {
    return Error{ErrorCode::kInvalidArgument, "too short"};
  }
  const std::vector<std::byte> file = container_with(bytes, is_package(bytes));
  if (!is_package(bytes)) return package::parse_program(file, "fuzz.tprog");
  TESSERA_TRY(const package::Package package, package::parse_package(file, "fuzz.tpkg"));
  return link::link(package, ChipConfig(), {});
}

std::vector<std::byte> container_input(std::span<const std::byte> file) {
  const bool package = package::file_kind(file) == package::FileKind::kPackage;
  const auto opened = package::open_container(
      package ? package::kPackageMagic : package::kProgramMagic, file, "corpus");
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
  const auto task = isa::decode(bytes, consumed);
  if (!task.ok()) return false;
  TESSERA_CHECK(consumed <= bytes.size(), "{} of {} bytes", consumed, bytes.size());
  const std::vector<std::byte> once = isa::encode(*task);
  const auto again = isa::decode(once, consumed);
  TESSERA_CHECK(again.ok(), "{}", again.error().message);
  TESSERA_CHECK(isa::encode(*again) == once, "task {} changed on the way", task->id);
  return true;
}

bool graph_text_target(const std::string& text) {
  const auto graph = graph::parse(text, {});
  return graph.ok() && graph::verify(*graph).ok();
}

}  // namespace tessera::fuzz
