// Memory of the system (POSIX shared memory) that clients on this machine give a name, so that tensors need not be
// sent: they are read from and written to it.
//
//   client: shm_open("/pictures"), writes ─► register "in": key "/pictures", offset, bytes ─► infer names "in"
//
// A region is read and written as a file, never mapped: where its owner makes it shorter or takes it away, a request
// that names it fails, and nothing else does. For several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera::serve {

class SharedRegion {
 public:
  // Owns the descriptor.
  SharedRegion(int descriptor, std::uint64_t offset, std::uint64_t bytes)
      : descriptor_(descriptor), offset_(offset), bytes_(bytes) {}
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  // Exactly these bytes, from `offset` within the region on. The error says what is not there (any more).
  Status read(std::uint64_t offset, std::span<std::byte> into) const;
  Status write(std::uint64_t offset, std::span<const std::byte> from) const;

 private:
  Status check(std::uint64_t offset, std::size_t bytes) const;
  const int descriptor_;
  const std::uint64_t offset_, bytes_;
};

struct RegionStatus {
  std::string name, key;
  std::uint64_t offset = 0, bytes = 0;
};

class SharedRegions {
 public:
  // Regions of one tenant are not seen by others, and are 64 at most; `tenant` is empty where there are none. The
  // error says which of name, key, offset and size is wrong, and what is there. Whether the tenant may have the key
  // is asked before (Client::may_share).
  Status add(const std::string& tenant, const RegionStatus& region);
  // Empty: all of the tenant's. Requests that use it keep it until they are answered.
  Status remove(const std::string& tenant, const std::string& name);
  std::vector<RegionStatus> list(const std::string& tenant) const;  // by name
  Result<std::shared_ptr<const SharedRegion>> find(const std::string& tenant,
                                                   const std::string& name) const;

 private:
  struct Entry {
    RegionStatus status;
    std::shared_ptr<const SharedRegion> region;  // shared with requests on their way
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Entry> regions_;  // by tenant and name
};

}  // namespace tessera::serve
