#include "cluster/package_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "package/container.h"
#include "package/sha256.h"

namespace tessera::cluster {
Result<Network> PackageCache::read(std::span<const std::byte> bytes) const {
  if (package::file_kind(bytes) == package::FileKind::kProgram) {
    TESSERA_TRY(isa::Program program, package::parse_program(bytes, "program"));
    TESSERA_TRY(const ChipConfig* const chip,
                chip_for("program", program.chip_name, program.chip_fingerprint));
    return network::network_from_program(std::move(program), "program", *chip);
  }
  TESSERA_TRY(package::Package package, package::parse_package(bytes, "package"));
  TESSERA_TRY(const ChipConfig* const chip,
              chip_for("package", package.chip_name, package.chip_fingerprint));
  return network::network_from_package(std::move(package), *chip);
}

Result<const ChipConfig*> PackageCache::chip_for(const char* what, const std::string& name,
                                                 std::uint64_t of_fingerprint) const {
  for (const ChipConfig& chip : chips_) {
    if (fingerprint(chip) == of_fingerprint) return &chip;
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("the {} was compiled for '{}' (fingerprint {:016x}), of which this "
                           "node has no card",
                           what, name, of_fingerprint)};
}

Status PackageCache::put(const std::string& digest, std::span<const std::byte> bytes) {
  const std::string found = package::sha256_text(package::sha256(bytes));
  if (found != digest) {
    return Error{ErrorCode::kInvalidModel,
                 fmt::format("a package of digest {} came as {}; send it again", found, digest)};
  }
  TESSERA_TRY(const Network network, read(bytes));
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.digest != digest) return false;
    bytes_ -= entry.bytes;
    return true;
  });
  entries_.push_front({digest, std::ssize(bytes), network.share()});
  bytes_ += std::ssize(bytes);
  while (bytes_ > bytes_max_ && entries_.size() > 1) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  return {};
}

std::shared_ptr<const NetworkState> PackageCache::find(const std::string& digest,
                                                       const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(entries_, digest, &Entry::digest);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  if (found->network->path == name) return found->network;
  auto named = std::make_shared<NetworkState>(*found->network);
  named->path = name;
  return named;
}

std::vector<std::byte> network_bytes(const NetworkState& network) {
  if (network.program == nullptr) return package::serialise(network.package);
  isa::Program whole = *network.program;
  whole.weights_file.clear();
  return package::serialise(whole);
}

}  // namespace tessera::cluster
