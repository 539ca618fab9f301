#include "arch/dram_sharing.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "arch/dram_channel_model.h"
#include "arch/dram_config.h"

namespace tessera {
namespace {

constexpr int kPlaces = 16;  // sets of places where streams begin
// Requests that are looked at: so many, or as many as have so many bytes together, but some of each stream.
constexpr std::int64_t kSharedRequestsMax = 256, kSharedBytesMax = std::int64_t{256} * 16384,
                       kTurnsLeast = 4;

// Where each stream is in a channel: anywhere, in parts of it that do not overlap.
std::vector<std::uint64_t> places(std::int64_t channel_bytes, std::int64_t request, int readers,
                                  std::mt19937& random) {
  const std::uint64_t requests =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(channel_bytes / request / readers));
  std::vector<std::uint64_t> at;
  for (int reader = 0; reader < readers; ++reader) {
    const std::uint64_t first = static_cast<std::uint64_t>(reader) * requests;
    at.push_back((first + random() % requests) * static_cast<std::uint64_t>(request));
  }
  return at;
}

// What streams ask for in turn: those that write behind those that read.
struct Turns {
  std::size_t readers = 1;
  std::int64_t read_bytes = 0, write_bytes = 0;

  std::int64_t bytes(std::size_t stream) const {
    return stream >= readers ? write_bytes : read_bytes;
  }
};

std::int64_t requests_of(const Turns& turns, std::int64_t streams) {
  const std::int64_t longest = std::max(turns.read_bytes, turns.write_bytes);
  return std::clamp(kSharedBytesMax / longest, std::min(kTurnsLeast * streams, kSharedRequestsMax),
                    kSharedRequestsMax);
}

// Cycles of the device in which a channel answers so many requests of the streams.
DramCycles cycles_of(const DramDevice& device, const DramChannelSettings& settings,
                     const Turns& turns, std::int64_t requests, std::vector<std::uint64_t> at) {
  DramChannelModel channel(device, settings);
  DramCycles now = 0, last = 0;
  const auto step = [&] {
    if (const auto transfer = channel.step()) last = std::max(last, transfer->done_at);
  };
  for (std::int64_t i = 0; i < requests; ++i) {
    const std::size_t stream = static_cast<std::size_t>(i) % at.size();
    const bool write = stream >= turns.readers;
    while (!channel.room(write)) {
      now = std::max(now, channel.next());
      step();
    }
    std::uint64_t& next = at[stream];
    channel.push(static_cast<std::uint32_t>(i), next, turns.bytes(stream), write, now);
    next += static_cast<std::uint64_t>(turns.bytes(stream));
  }
  while (channel.next() < kDramNever) step();
  return last;
}

}  // namespace

double dram_shared_bytes_per_cycle(const ChipConfig& chip, const DramStreams& streams) {
  const double alone = dram_sustained_bytes_per_cycle(chip);
  const DramDevice* device = dram_device(chip);
  const int count = streams.readers + streams.writers;
  if (device == nullptr || count <= 1) return alone;
  const DramChannelSettings settings = dram_channel_settings(chip.dram);
  const std::int64_t longest = chip.dma.request_bytes;
  const Turns turns{.readers = static_cast<std::size_t>(streams.readers),
                    .read_bytes = streams.read_bytes > 0 ? streams.read_bytes : longest,
                    .write_bytes = streams.write_bytes > 0 ? streams.write_bytes : longest};
  // As many bytes by one that reads them from one end to the other.
  const std::int64_t requests = requests_of(turns, count);
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < requests; ++i) {
    bytes += turns.bytes(static_cast<std::size_t>(i % count));
  }
  const Turns alone_turns{.readers = 1, .read_bytes = bytes / requests};
  std::mt19937 random(1);  // fixed: the same places for everybody
  double one = 0, together = 0;
  for (int i = 0; i < kPlaces; ++i) {
    const std::vector<std::uint64_t> at = places(device->bytes, longest, count, random);
    one += static_cast<double>(cycles_of(*device, settings, alone_turns, requests, {at[0]}));
    together += static_cast<double>(cycles_of(*device, settings, turns, requests, at));
  }
  return alone * std::min(1.0, one / together);
}

}  // namespace tessera
