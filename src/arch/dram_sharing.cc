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
constexpr std::int64_t kRequests = 256;

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

// Cycles of the device in which a channel answers kRequests of the streams, of which the last ones write.
DramCycles cycles_of(const DramDevice& device, const DramChannelSettings& settings,
                     std::int64_t request, std::size_t readers, std::vector<std::uint64_t> at) {
  DramChannelModel channel(device, settings);
  DramCycles now = 0, last = 0;
  const auto step = [&] {
    if (const auto transfer = channel.step()) last = std::max(last, transfer->done_at);
  };
  for (std::int64_t i = 0; i < kRequests; ++i) {
    const std::size_t stream = static_cast<std::size_t>(i) % at.size();
    const bool write = stream >= readers;
    while (!channel.room(write)) {
      now = std::max(now, channel.next());
      step();
    }
    std::uint64_t& next = at[stream];
    channel.push(static_cast<std::uint32_t>(i), next, request, write, now);
    next += static_cast<std::uint64_t>(request);
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
  const std::int64_t request = chip.dma.request_bytes;
  const auto readers = static_cast<std::size_t>(streams.readers);
  std::mt19937 random(1);  // fixed: the same places for everybody
  double one = 0, together = 0;
  for (int i = 0; i < kPlaces; ++i) {
    const std::vector<std::uint64_t> at = places(device->bytes, request, count, random);
    one += static_cast<double>(cycles_of(*device, settings, request, 1, {at[0]}));
    together += static_cast<double>(cycles_of(*device, settings, request, readers, at));
  }
  return alone * std::min(1.0, one / together);
}

}  // namespace tessera
