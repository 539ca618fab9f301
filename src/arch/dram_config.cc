#include "arch/dram_config.h"

#include <string_view>

#include "base/check.h"

namespace tessera {
namespace {

std::string_view device_name(DramKind kind) {
  switch (kind) {
    case DramKind::kInCycles:
    case DramKind::kFlat:
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

}  // namespace

const DramDevice* dram_device(DramKind kind) {
  const std::string_view name = device_name(kind);
  if (name.empty()) return nullptr;
  const auto device = find_dram_device(name);
  TESSERA_CHECK(device.ok(), "no DRAM device '{}' in the table", name);
  return *device;
}

DramChannelSettings dram_channel_settings(const DramConfig& config) {
  DramChannelSettings settings;
  settings.gang = config.gang;
  settings.interleave = config.mapping;
  settings.bank_hash = config.bank_hash != 0;
  settings.queue_requests = config.queue_requests;
  settings.write_high_percent = config.write_high_percent;
  settings.write_low_percent = config.write_low_percent;
  settings.refresh = config.refresh != 0;
  return settings;
}

}  // namespace tessera
