#include "card/core.h"

#include <cstring>

#include "base/check.h"
#include "card/core_state.h"

namespace tessera::card {

Status Core::load(const isa::Program& program, std::span<const std::byte> weights) {
  state_->programs.clear();
  state_->written.clear();
  state_->boxes.dram.clear();
  state_->forget_descriptors();
  auto added = state_->place(program, weights);
  if (!added.ok()) return added.error();
  return {};
}

Status Core::bind(isa::DramAddress address, std::span<std::byte> bytes) {
  return bind(0, address, bytes);
}

Status Core::bind(std::size_t network, isa::DramAddress address, std::span<std::byte> bytes) {
  TESSERA_RETURN_IF_ERROR(state_->check_access(network, address, bytes.size()));
  state_->boxes.dram.bind(network, address, bytes);
  return {};
}

void Core::remove(std::size_t network) {
  TESSERA_CHECK(network < state_->programs.size(), "network {}", network);
  state_->boxes.dram.remove(network);
  state_->programs[network] = nullptr;
  state_->forget_descriptors();
  for (int base = 0; base < isa::kBaseIndexCount; ++base) {
    state_->written.forget(
        engines::dram_key(static_cast<std::uint32_t>(network), static_cast<isa::BaseIndex>(base)));
  }
}

void Core::clear_region(const isa::CoreRegion& region) {
  state_->boxes.state_buffer.clear(region.state_buffer.first, region.state_buffer.bytes);
  state_->boxes.kernel_memory.clear(region.kernel_memory.first, region.kernel_memory.bytes);
}

Status Core::write(std::size_t network, isa::DramAddress address,
                   std::span<const std::byte> bytes) {
  TESSERA_RETURN_IF_ERROR(state_->check_access(network, address, bytes.size()));
  if (!bytes.empty()) {
    std::memcpy(state_->boxes.dram.at(network, address), bytes.data(), bytes.size());
  }
  const auto first = static_cast<std::int64_t>(address.offset);
  const auto last = first + static_cast<std::int64_t>(bytes.size());
  const auto key = engines::dram_key(static_cast<std::uint32_t>(network), address.base);
  state_->written.add(key, first, last);
  if (state_->hazards) state_->hazards->host_writes(key, first, last);
  return {};
}

Status Core::read(std::size_t network, isa::DramAddress address, std::span<std::byte> bytes) const {
  const CoreState& state = *state_;
  TESSERA_RETURN_IF_ERROR(state.check_access(network, address, bytes.size()));
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), state.boxes.dram.at(network, address), bytes.size());
  }
  return {};
}

Result<NetworksResult> Core::run_networks(std::span<const NetworkRun> runs,
                                          const CoreOptions& options) {
  TESSERA_RETURN_IF_ERROR(state_->begin(runs, options));
  const Status ran = state_->run_clock(options);
  // A race says more than what came of it.
  TESSERA_RETURN_IF_ERROR(state_->races());
  TESSERA_RETURN_IF_ERROR(ran);
  state_->note_written(runs);
  return state_->collect(runs);
}

Result<RunStatistics> Core::run_segment(std::size_t segment, const CoreOptions& options) {
  const NetworkRun run{.segment = segment};
  TESSERA_TRY(NetworksResult result, run_networks({&run, 1}, options));
  TESSERA_RETURN_IF_ERROR(result.networks[0].status);
  return std::move(result.statistics);
}

Core::Core(std::unique_ptr<CoreState> state) : state_(std::move(state)) {}
Core::~Core() = default;

Result<std::unique_ptr<Core>> Core::create(const ChipConfig& chip) {
  return std::unique_ptr<Core>(new Core(std::make_unique<CoreState>(chip)));
}

Status Core::load(const isa::Program& program) { return load(program, {}); }

Result<std::size_t> Core::add(const isa::Program& program) { return state_->place(program, {}); }

Result<std::size_t> Core::add(const isa::Program& program, std::span<const std::byte> weights,
                              const DramPlace& place) {
  return state_->place(program, weights, engines::DramPart{{place.first, place.bytes}});
}

Status Core::write(isa::DramAddress address, std::span<const std::byte> bytes) {
  return write(0, address, bytes);
}

Status Core::read(isa::DramAddress address, std::span<std::byte> bytes) const {
  return read(0, address, bytes);
}

}  // namespace tessera::card
