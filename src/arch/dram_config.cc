#include "arch/dram_config.h"

#include <string_view>

#include "base/check.h"

namespace tessera {
namespace {

std::string_view device_name(DramKind kind) {
  switch (kind) {
    case DramKind::kFlat:
    case DramKind::kCustom:
      return "";
    case DramKind::kDdr4_2400:
      return "ddr4-2400";
    case DramKind::kDdr4_3200:
      return "ddr4-3200";
    case DramKind::kHbm2_2000:
      return "hbm2-2000";
    case DramKind::kLpddr5_6400:
      return "lpddr5-6400";
  }
  return "";
}

constexpr std::int64_t kPicosecondsOfASecond = 1'000'000'000'000;
constexpr std::int64_t kPicosecondsOfANanosecond = 1000;

DramCosts device_costs(const ChipConfig& chip, const DramDevice& device) {
  const DramConfig& dram = chip.dram;
  const std::int64_t side_by_side = std::int64_t{dram.gang} * dram.channels;
  const std::int64_t burst_ps = dram_cycles(device.ccd_short_ps, device.clock_ps) * device.clock_ps;
  return {
      .burst_bytes = dram_burst_bytes(chip),
      .peak = {device.pseudo_channels * device.burst_bytes * side_by_side * kPicosecondsOfASecond,
               burst_ps * chip.clock_hertz},
      .latency = core_cycles_of(
          dram.controller_nanoseconds * kPicosecondsOfANanosecond + device.cl_ps + device.burst_ps,
          chip)};
}

}  // namespace

const DramDevice* dram_device(const ChipConfig& chip) {
  if (chip.dram.device == DramKind::kCustom) return &chip.dram_custom;
  const std::string_view name = device_name(chip.dram.device);
  if (name.empty()) return nullptr;
  for (const DramDevice& device : dram_devices()) {
    if (device.name == name) return &device;
  }
  TESSERA_CHECK(false, "no DRAM device '{}' in the table", name);
  return nullptr;
}

DramChannelSettings dram_channel_settings(const DramConfig& config) {
  DramChannelSettings settings;
  settings.gang = config.gang;
  settings.interleave = config.mapping;
  settings.bank_hash = config.bank_hash != 0;
  settings.queue_requests = config.queue_requests;
  settings.write_high_percent = config.write_high_percent;
  settings.write_low_percent = config.write_low_percent;
  settings.write_wait_bursts = config.write_wait_bursts;
  settings.refresh = config.refresh != 0;
  return settings;
}

Cycles core_cycles_of(std::int64_t picoseconds, const ChipConfig& chip) {
  return Ratio(chip.clock_hertz, kPicosecondsOfASecond).ceil_of(picoseconds);
}

std::int64_t dram_burst_bytes(const ChipConfig& chip) {
  const DramDevice* device = dram_device(chip);
  if (device == nullptr) return chip.dram.flat_burst_bytes;
  return std::int64_t{device->burst_bytes} * chip.dram.gang;
}

DramCosts dram_costs(const ChipConfig& chip) {
  const DramConfig& dram = chip.dram;
  if (const DramDevice* device = dram_device(chip)) return device_costs(chip, *device);
  constexpr std::int64_t kMillion = 1'000'000;
  return {.burst_bytes = dram.flat_burst_bytes,
          .peak = {dram.flat_megabytes_per_second * kMillion, chip.clock_hertz},
          .latency = core_cycles_of(dram.flat_nanoseconds * kPicosecondsOfANanosecond, chip)};
}

DramPieces dram_pieces(const ChipConfig& chip) {
  if (dram_device(chip) == nullptr) return {.bytes = chip.dma.request_bytes};
  const std::int64_t bytes = std::int64_t{chip.dma.request_bytes} * chip.dram.channels;
  return {.bytes = bytes, .alignment = bytes};
}

double dram_sustained_bytes_per_cycle(const ChipConfig& chip) {
  const double peak = dram_costs(chip).peak.value();
  const DramDevice* device = dram_device(chip);
  if (device == nullptr || chip.dram.refresh == 0) return peak;
  // Pseudo-channels precharge one after the other, each while the others wait.
  const std::int64_t lost = device->refresh_ps + device->pseudo_channels * device->rp_all_ps;
  return peak * (1 - static_cast<double>(lost) / static_cast<double>(device->refresh_interval_ps));
}

}  // namespace tessera
