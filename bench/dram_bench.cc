// What a request of 4 KiB costs the simulation of the DRAM channel, two in flight.
#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "arch/chip_config.h"
#include "arch/dram_channel_model.h"
#include "engines/memory/dram_channel.h"

namespace tessera {
namespace {

constexpr std::int64_t kRequestBytes = 4096;

// Requests one after the other, or a copy: every second one a write elsewhere.
void run_model(benchmark::State& state, const DramDevice& device,
               const DramChannelSettings& settings, bool copy) {
  DramChannelModel model(device, settings);
  std::array<std::int64_t, 2> left{};  // bursts of the two in flight
  std::uint64_t request = 0;
  DramCycles now = 0;
  std::int64_t done = 0;
  const auto push = [&](std::uint32_t slot) {
    const bool write = copy && request % 2 == 1;
    const std::uint64_t address = (copy ? request / 2 : request) * kRequestBytes;
    left[slot] = model.push(slot, address + (write ? 64 << 20 : 0), kRequestBytes, write, now);
    ++request;
  };
  push(0);
  push(1);
  for (auto _ : state) {
    for (const std::int64_t before = done; done == before;) {
      now = model.next();
      const auto transfer = model.step();
      if (!transfer) continue;
      left[transfer->request] -= transfer->bursts;
      if (left[transfer->request] > 0) continue;
      ++done;
      push(transfer->request);
    }
  }
  state.SetItemsProcessed(state.iterations());
  const double seconds = static_cast<double>(now * device.clock_ps) * 1e-12;
  state.counters["simulated_GB/s"] = static_cast<double>(done * kRequestBytes) / seconds * 1e-9;
}

// The channel of the virtual core.
void run_core_channel(benchmark::State& state) {
  const ChipConfig chip;
  engines::WakeTable wakes;
  wakes.reset();
  engines::DramPort kernel(engines::Box::kKernel, 8);
  engines::DramPort load(engines::Box::kLoad, 8);
  engines::DramPort store(engines::Box::kStore, 8);
  engines::DramPort tasks(engines::Box::kTaskManager, 4);
  engines::DramChannel channel(chip, {&load, &store, &kernel, &tasks}, wakes);
  channel.reset();
  std::array<StridedRuns, 16> grids;
  std::size_t request = 0;
  int in_flight = 0;
  Cycles now = 0;
  for (auto _ : state) {
    for (bool done = false; !done;) {
      while (!kernel.completions.empty() && kernel.completions.front() <= now) {
        kernel.completions.pop();
        --in_flight;
        done = true;
      }
      while (in_flight < 2 && kernel.requests.can_push(now)) {
        StridedRuns& grid = grids[request % grids.size()];
        grid = {.address = static_cast<std::int64_t>(request % 65536) * kRequestBytes,
                .run_bytes = kRequestBytes};
        kernel.requests.push(now, {.grid = &grid, .bytes = kRequestBytes});
        ++request;
        ++in_flight;
      }
      Cycles next = channel.step(now);
      if (!kernel.completions.empty()) next = std::min(next, kernel.completions.front());
      now = std::max(now + 1, next == kNever ? now + 1 : next);
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(run_core_channel);

int register_models() {
  for (const DramDevice& device : dram_devices()) {
    for (const auto interleave :
         {DramInterleave::kRow, DramInterleave::kBank, DramInterleave::kGroup}) {
      for (const std::int32_t gang : {1, 4}) {
        for (const bool copy : {false, true}) {
          const std::string name =
              std::string(copy ? "copy/" : "read/") + std::string(device.name) + "/" +
              std::string(kDramInterleaveNames[static_cast<std::size_t>(interleave)]) + "/gang" +
              std::to_string(gang);
          benchmark::RegisterBenchmark(
              name.c_str(), [&device, interleave, gang, copy](benchmark::State& state) {
                run_model(state, device, {.gang = gang, .interleave = interleave}, copy);
              });
        }
      }
    }
  }
  return 0;
}
[[maybe_unused]] const int kRegistered = register_models();

}  // namespace
}  // namespace tessera
