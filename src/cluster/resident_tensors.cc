#include "cluster/resident_tensors.h"

namespace tessera::cluster {

ResidentTensors::State& ResidentTensors::state_of(std::span<const std::byte> bytes) {
  State& state = states_[bytes.data()];
  if (state.bytes != bytes.size()) state = {.bytes = bytes.size(), .number = next_++};
  return state;
}

std::optional<std::int64_t> ResidentTensors::to_read(std::span<const std::byte> bytes,
                                                     std::uint64_t link) {
  const std::lock_guard lock(mutex_);
  State& state = state_of(bytes);
  if (state.by_run) state.is_state = true;
  if (state.away == 0) return 0;
  if (state.away == link) return state.number;
  return std::nullopt;
}

std::int64_t ResidentTensors::to_write(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const State& state = state_of(bytes);
  return state.is_state ? state.number : 0;
}

void ResidentTensors::written(std::span<const std::byte> bytes, std::int64_t block,
                              std::uint64_t link) {
  const std::lock_guard lock(mutex_);
  State& state = state_of(bytes);
  state.by_run = true;
  state.away = block == 0 ? 0 : link;
}

void ResidentTensors::host_wrote(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  // Parts of a tensor count as the whole of it.
  const std::byte* const end = bytes.data() + bytes.size();
  for (auto at = states_.begin(); at != states_.end();) {
    const bool overlaps = at->first < end && bytes.data() < at->first + at->second.bytes;
    at = overlaps ? states_.erase(at) : std::next(at);
  }
}

std::optional<ResidentTensors::Place> ResidentTensors::away(
    std::span<const std::byte> bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = states_.find(bytes.data());
  if (found == states_.end() || found->second.away == 0) return std::nullopt;
  return Place{found->second.number, found->second.away};
}

void ResidentTensors::brought(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = states_.find(bytes.data());
  if (found == states_.end()) return;
  found->second.away = 0;
  found->second.is_state = false;
}

}  // namespace tessera::cluster
