// Packages that processes leave for each other in a folder, each under a digest of all that it was made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "package/package.h"

namespace tessera::network {

// For several threads and processes at once: files are written beside their places and renamed.
class PackageCache {
 public:
  // An empty folder: nothing is kept.
  PackageCache(std::string folder, std::int64_t bytes_max)
      : folder_(std::move(folder)), bytes_max_(bytes_max) {}

  // Makes the folder.
  Status open() const;
  // Nothing where none is there. One that cannot be read is removed.
  std::optional<package::Package> find(const std::string& digest) const;
  // Then those go that were not used for longest, until the rest has its bytes.
  Status put(const std::string& digest, const package::Package& package) const;

 private:
  std::string path_of(const std::string& digest) const;
  void evict(const std::string& but) const;

  const std::string folder_;
  const std::int64_t bytes_max_;
};

}  // namespace tessera::network
