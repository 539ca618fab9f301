#include "engines/card_memory/share_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tessera::engines {

bool same_bytes(const CardRequest& a, const CardRequest& b) {
  const DramRequest& x = a.dram;
  const DramRequest& y = b.dram;
  if (a.home != b.home || x.first_run != y.first_run || x.runs != y.runs || x.skip != y.skip ||
      x.bytes != y.bytes || x.write != y.write) {
    return false;
  }
  if (x.grid == y.grid) return true;
  const auto axes = static_cast<std::size_t>(x.grid->axes);
  return x.grid->address == y.grid->address && x.grid->axes == y.grid->axes &&
         std::equal(x.grid->extents.begin(), x.grid->extents.begin() + axes,
                    y.grid->extents.begin()) &&
         std::equal(x.grid->strides.begin(), x.grid->strides.begin() + axes,
                    y.grid->strides.begin());
}

std::string describe_bytes(const CardRequest& request) {
  RunWalk walk(request.dram);
  std::int64_t first = walk.address(), last = first;
  for (std::int64_t left = request.dram.runs; left > 1; --left) {
    walk.next();
    first = std::min(first, walk.address());
    last = std::max(last, walk.address());
  }
  return fmt::format("group {}, {:#x} to {:#x} ({} x {} bytes)", request.home, first,
                     last + request.dram.bytes - 1, request.dram.runs, request.dram.bytes);
}

std::string ShareFault::message() const {
  return fmt::format(
      "share {}, request {}: {} {} asks for {}, {} {} for {}; members of a share ask for the "
      "same bytes in the same order, each once",
      share, sequence, member_name, opener, opener_bytes, member_name, other, other_bytes);
}

ShareDecoder::ShareDecoder(std::size_t entries_max, const char* member_name)
    : entries_max_(entries_max), member_name_(member_name) {
  entries_.reserve(entries_max);
}

void ShareDecoder::reset() {
  entries_.clear();
  faults_.clear();
}

void ShareDecoder::set_entries(std::uint32_t program, std::size_t entries) {
  if (program >= entries_of_.size()) entries_of_.resize(program + 1, entries_max_);
  entries_of_[program] = entries;
}

bool ShareDecoder::full(std::uint32_t program) const {
  if (program >= entries_of_.size()) return entries_.size() == entries_max_;
  const auto its = std::ranges::count_if(
      entries_, [program](const Entry& entry) { return entry.request.share.program == program; });
  return static_cast<std::size_t>(its) >= entries_of_[program];
}

std::vector<ShareDecoder::Entry> ShareDecoder::forget(std::uint32_t program) {
  std::vector<Entry> taken;
  for (const Entry& entry : entries_) {
    if (entry.request.share.program == program) taken.push_back(entry);
  }
  std::erase_if(entries_,
                [program](const Entry& entry) { return entry.request.share.program == program; });
  std::erase_if(faults_, [program](const ShareFault& fault) { return fault.program == program; });
  return taken;
}

bool ShareDecoder::faulty(std::uint32_t program) const {
  return std::ranges::any_of(
      faults_, [program](const ShareFault& fault) { return fault.program == program; });
}

const ShareFault& ShareDecoder::fault_of(std::uint32_t program) const {
  return *std::ranges::find(faults_, program, &ShareFault::program);
}

bool ShareDecoder::join(Entry& entry, int member, const CardRequest& request, std::uint32_t ticket,
                        Cycles since) {
  const std::uint64_t bit = std::uint64_t{1} << member;
  const bool unexpected = (entry.expected & bit) == 0 || (entry.here & bit) != 0;
  if (unexpected || entry.request.share.members != request.share.members ||
      !same_bytes(entry.request, request)) {
    faults_.push_back({.share = request.share.number,
                       .sequence = request.share.sequence,
                       .program = request.share.program,
                       .opener = entry.opener,
                       .other = member,
                       .member_name = member_name_,
                       .opener_bytes = describe_bytes(entry.request),
                       .other_bytes = describe_bytes(request)});
    return false;
  }
  entry.here |= bit;
  entry.came[static_cast<std::size_t>(member)] = since;
  entry.tickets[static_cast<std::size_t>(member)] = ticket;
  return true;
}

// One that was held up at its port came before it is seen.
void ShareDecoder::complete(const Entry& entry, int seen) {
  completed_ = entry;
  completed_.last = seen;
  for (std::uint64_t rest = entry.here; rest != 0; rest &= rest - 1) {
    const int member = std::countr_zero(rest);
    const Cycles last = completed_.came[static_cast<std::size_t>(completed_.last)];
    if (completed_.came[static_cast<std::size_t>(member)] > last) completed_.last = member;
  }
}

ShareDecoder::Came ShareDecoder::come(int member, std::uint64_t expected,
                                      const CardRequest& request, std::uint32_t ticket, Cycles now,
                                      Cycles since) {
  since = std::min(since, now);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&request](const Entry& entry) {
    return entry.request.share.same_request(request.share);
  });
  if (found == entries_.end()) {
    Entry entry{.request = request, .opener = member, .expected = expected};
    if (std::has_single_bit(expected)) {
      if (!join(entry, member, request, ticket, since)) return Came::kFault;
      complete(entry, member);
      return Came::kComplete;
    }
    if (full(request.share.program)) return Came::kNoRoom;
    if (!join(entry, member, request, ticket, since)) return Came::kFault;
    entries_.push_back(entry);
    return Came::kWaits;
  }
  if (!join(*found, member, request, ticket, since)) return Came::kFault;
  if (found->here != found->expected) return Came::kWaits;
  complete(*found, member);
  entries_.erase(found);
  return Came::kComplete;
}

void ShareDecoder::begin_together(const CardRequest& request, std::uint64_t expected) {
  completed_ = {.request = request, .opener = std::countr_zero(expected), .expected = expected};
}

ShareDecoder::Came ShareDecoder::come_together(int member, const CardRequest& request,
                                               std::uint32_t ticket, Cycles since) {
  if (!join(completed_, member, request, ticket, since)) return Came::kFault;
  if (completed_.here != completed_.expected) return Came::kWaits;
  complete(Entry(completed_), member);
  return Came::kComplete;
}

}  // namespace tessera::engines
