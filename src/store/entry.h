// What lies in the store: entries with the revisions at which they were made and last changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::store {

// Each transaction that changes something has the next revision. 0: before everything.
using Revision = std::int64_t;

// 0: none.
using LeaseId = std::int64_t;

struct Entry {
  std::string key{}, value{};
  Revision created = 0;   // of the put that made it
  Revision modified = 0;  // of the last put
  LeaseId lease = 0;      // the entry is deleted when this ends

  friend bool operator==(const Entry&, const Entry&) = default;
};

// Entries of a prefix in ascending order of their keys, all as of one revision.
struct Entries {
  std::vector<Entry> entries{};
  Revision revision = 0;
};

struct MaybeEntry {
  std::optional<Entry> entry{};
  Revision revision = 0;
};

}  // namespace tessera::store
