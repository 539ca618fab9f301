// Where requests for the same bytes meet.
//
//   member 0 ─ share 3, request 7 ─► [ opens an entry ]
//   member 2 ─ share 3, request 7 ─► [ joins          ]
//   member 1 ─ share 3, request 7 ─► [ is the last    ] ─► one request for all
//
// The members of a share issue the same requests in the same order (the verifier of a program sees to
// that), so an entry is found by share and sequence. Who comes early waits for the member that comes last.
//
// The table is bounded. One who finds it full waits where it is, at the head of its port. There the
// members of a request find each other without an entry once all of them are at the heads of their
// ports. Nobody waits for ever: where members issue their shares in orders that fit together, the first
// share that is not complete has all its members in its entry, or, if it has none, sooner or later at
// the heads of their ports, whatever fills the table.
//
// Programs that share a card have parts of the table, so that none fills up another's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/card_memory/card_request.h"

namespace tessera::engines {

// Whether two requests are for the same bytes in the same order, told the same way.
bool same_bytes(const CardRequest& a, const CardRequest& b);
// "group 0, 0x1000 to 0x1fff (4 x 64 bytes)"
std::string describe_bytes(const CardRequest& request);

// Two members of a share that do not agree.
struct ShareFault {
  std::uint32_t share = 0, sequence = 0;
  std::uint32_t program = 0;
  int opener = 0, other = 0;  // members
  std::string member_name;    // "core" or "group"
  std::string opener_bytes, other_bytes;
  // "share 3, request 7: core 0 asks for ..., core 2 for ...; members of a share ask for the same bytes
  // in the same order"
  std::string message() const;
};

class ShareDecoder {
 public:
  struct Entry {
    CardRequest request;  // as the opener told it
    int opener = 0;
    std::uint64_t expected = 0, here = 0;  // members
    int last = 0;  // of one that is complete: who came last; of several the one that is seen last
    std::array<Cycles, kCoresMax> came{};
    std::array<std::uint32_t, kCoresMax> tickets{};
  };
  enum class Came : std::uint8_t {
    kWaits,     // in an entry
    kComplete,  // as the last: completed() holds all of them
    kNoRoom,    // no entry, and none free
    kFault,     // fault() says what is wrong; nothing has changed
  };

  // Members are numbers below kCoresMax; what they are goes into messages.
  explicit ShareDecoder(std::size_t entries_max, const char* member_name = "core");

  void reset();
  // A program has room for so many entries from now on, of the table of entries_max; without it for all.
  void set_entries(std::uint32_t program, std::size_t entries);
  // Takes the entries of a program out, and its fault.
  std::vector<Entry> forget(std::uint32_t program);
  // `expected` holds `member`. Where it does not hold any other, the request is complete at once. It has
  // waited at its port since `since`, if that is before `now`.
  Came come(int member, std::uint64_t expected, const CardRequest& request, std::uint32_t ticket,
            Cycles now, Cycles since = kNever);
  // For members who come together, in a cycle in which the table is full: uses no entry.
  void begin_together(const CardRequest& request, std::uint64_t expected);
  Came come_together(int member, const CardRequest& request, std::uint32_t ticket, Cycles since);
  const Entry& completed() const { return completed_; }

  bool full(std::uint32_t program = 0) const;
  const std::vector<Entry>& entries() const { return entries_; }
  // The first.
  std::optional<ShareFault> fault() const {
    return faults_.empty() ? std::nullopt : std::optional(faults_.front());
  }
  bool faulty(std::uint32_t program) const;
  const ShareFault& fault_of(std::uint32_t program) const;  // of one that is faulty

 private:
  bool join(Entry& entry, int member, const CardRequest& request, std::uint32_t ticket,
            Cycles since);
  void complete(const Entry& entry, int seen);

  const std::size_t entries_max_;
  std::vector<std::size_t> entries_of_;  // by program; missing: all
  const char* const member_name_;
  std::vector<Entry> entries_;  // oldest first
  Entry completed_;
  std::vector<ShareFault> faults_;  // at most one of a program
};

}  // namespace tessera::engines
