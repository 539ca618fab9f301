#include "repro/dram_drive.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace tessera::repro {
namespace {

struct Request {
  std::int64_t bursts_left = 0;
  std::int64_t pieces = 1;  // of 64 B
  DramCycles entered = 0, done_at = 0;
  bool write = false;
};

class Driver {
 public:
  Driver(const DramDevice& device, const DramChannelSettings& settings, const DramPattern& pattern,
         const DramLoad& load)
      : channel_(device, settings), pattern_(pattern), load_(load), clock_ps_(device.clock_ps) {}

  DramFigures run() {
    DramCycles now = 0;
    while (!ended_) {
      DramCycles next = channel_.next();
      if (sent_) next = std::min(next, now + 1);
      if (!done_.empty()) next = std::min(next, done_.top().first);
      now = next;
      while (channel_.next() <= now) {
        if (const auto transfer = channel_.step()) take(*transfer);
      }
      while (!done_.empty() && done_.top().first <= now) {
        const std::uint32_t slot = done_.top().second;
        done_.pop();
        complete(slot, now);
      }
      sent_ = send(now);
    }
    return figures();
  }

 private:
  bool counts(bool write) const { return !(pattern_.posted && write); }

  void take(const DramTransfer& transfer) {
    Request& request = requests_[transfer.request];
    request.done_at = std::max(request.done_at, transfer.done_at);
    request.bursts_left -= transfer.bursts;
    if (request.bursts_left == 0) done_.emplace(request.done_at, transfer.request);
  }

  void complete(std::uint32_t slot, DramCycles now) {
    const Request& request = requests_[slot];
    free_.push_back(slot);
    if (counts(request.write)) outstanding_ -= request.pieces;
    completed_ += request.pieces;
    if (first_ < 0) {
      if (completed_ < load_.warm_up) return;
      first_ = now;
      completed_at_first_ = completed_;
      counts_at_first_ = channel_.counts();
      return;
    }
    if (ended_) return;
    if (!request.write) latencies_.push_back(now - request.entered);
    if (completed_ < completed_at_first_ + load_.measured) return;
    ended_ = true;
    last_ = now;
    completed_at_last_ = completed_;
  }

  // Whether the next request of the pattern has entered.
  bool send(DramCycles now) {
    const DramAccess access = pattern_.at(next_);
    if (counts(access.write) && outstanding_ >= load_.outstanding) return false;
    if (!channel_.room(access.write)) return false;
    std::int64_t pieces = 1;
    while (pieces * kDramRequestBytes < load_.request_bytes &&
           pattern_.at(next_ + static_cast<std::uint64_t>(pieces)) ==
               DramAccess{access.address + static_cast<std::uint64_t>(pieces * kDramRequestBytes),
                          access.write}) {
      ++pieces;
    }
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(requests_.size()));
      requests_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    const std::int64_t bursts =
        channel_.push(slot, access.address, pieces * kDramRequestBytes, access.write, now);
    requests_[slot] = {
        .bursts_left = bursts, .pieces = pieces, .entered = now, .write = access.write};
    if (counts(access.write)) outstanding_ += pieces;
    next_ += static_cast<std::uint64_t>(pieces);
    return true;
  }

  DramFigures figures() {
    DramFigures figures;
    const auto bytes =
        static_cast<double>((completed_at_last_ - completed_at_first_) * kDramRequestBytes);
    figures.gigabytes_per_second = bytes / static_cast<double>((last_ - first_) * clock_ps_) * 1e3;
    figures.counts = channel_.counts() - counts_at_first_;
    if (latencies_.empty()) return figures;
    const double nanoseconds = static_cast<double>(clock_ps_) * 1e-3;
    double sum = 0;
    for (const DramCycles latency : latencies_) sum += static_cast<double>(latency);
    figures.latency_mean_nanoseconds = sum / static_cast<double>(latencies_.size()) * nanoseconds;
    const std::size_t rank = (latencies_.size() * 99 + 99) / 100;  // ceil of 0.99 n, from 1
    std::ranges::nth_element(latencies_,
                             latencies_.begin() + static_cast<std::ptrdiff_t>(rank - 1));
    figures.latency_p99_nanoseconds = static_cast<double>(latencies_[rank - 1]) * nanoseconds;
    return figures;
  }

  DramChannelModel channel_;
  const DramPattern pattern_;
  const DramLoad load_;
  const std::int64_t clock_ps_;
  std::vector<Request> requests_;
  std::vector<std::uint32_t> free_;
  using Done = std::pair<DramCycles, std::uint32_t>;
  std::priority_queue<Done, std::vector<Done>, std::greater<>> done_;
  std::uint64_t next_ = 0;
  std::int64_t outstanding_ = 0, completed_ = 0;
  std::int64_t completed_at_first_ = 0, completed_at_last_ = 0;
  DramCycles first_ = -1, last_ = 0;
  DramCounts counts_at_first_;
  std::vector<DramCycles> latencies_;
  bool sent_ = true, ended_ = false;
};

}  // namespace

DramFigures drive_dram(const DramDevice& device, const DramChannelSettings& settings,
                       const DramPattern& pattern, const DramLoad& load) {
  return Driver(device, settings, pattern, load).run();
}

}  // namespace tessera::repro
