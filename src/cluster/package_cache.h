// Packages and programs that came to a node, by the digest of their bytes: each comes once, and is read once
// for each card that it is for. The oldest go when there are too many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "network/network.h"

namespace tessera::cluster {

// For several threads at once.
class PackageCache {
 public:
  // For cards of these architectures.
  PackageCache(std::int64_t bytes_max, std::vector<ChipConfig> chips)
      : bytes_max_(bytes_max), chips_(std::move(chips)) {}

  // Reads and checks it. kInvalidModel: it is damaged, or has another digest.
  Status put(const std::string& digest, std::span<const std::byte> bytes);
  // Under the name that its user has for it; null: it has not come, or is gone again.
  std::shared_ptr<const NetworkState> find(const std::string& digest, const std::string& name);

 private:
  struct Entry {
    std::string digest;
    std::int64_t bytes = 0;
    std::shared_ptr<const NetworkState> network;  // shared with those who have loaded it
  };
  Result<Network> read(std::span<const std::byte> bytes) const;
  Result<const ChipConfig*> chip_for(const char* what, const std::string& name,
                                     std::uint64_t of_fingerprint) const;

  const std::int64_t bytes_max_;
  const std::vector<ChipConfig> chips_;
  std::mutex mutex_;          // of what follows
  std::list<Entry> entries_;  // the one that was used last in front
  std::int64_t bytes_ = 0;
};

// The bytes by which a network goes over: its package, or its program with all its weights.
std::vector<std::byte> network_bytes(const NetworkState& network);

}  // namespace tessera::cluster
