#include "arch/dram_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "arch/nearest.h"
#include "base/quantity.h"

namespace tessera {
namespace {

// tWTR of the three devices from Ramulator counts from the end of write data; that of LPDDR5 in one
// bank group begins one burst later, which is part of the figure here (12.5 ns and 2.5).
constexpr std::array<DramDevice, 4> kDevices = {{
    {.name = "ddr4-2400",
     .source = "Ramulator 2.1 presets DDR4_8Gb_x8, DDR4_2400R (JESD79-4)",
     .pseudo_channels = 1,
     .bank_groups = 4,
     .banks_per_group = 4,
     .burst_bytes = 64,
     .row_bytes = 8192,
     .bytes = std::int64_t{8} << 30,
     .clock_ps = 833,
     .rcd_read_ps = 13330,
     .rcd_write_ps = 13330,
     .rp_ps = 13330,
     .rp_all_ps = 13330,
     .cl_ps = 13330,
     .cwl_ps = 10000,
     .burst_ps = 3330,
     .ras_ps = 32490,
     .rc_ps = 45810,
     .faw_ps = 21660,
     .rrd_short_ps = 3330,
     .rrd_long_ps = 5000,
     .ccd_short_ps = 3330,
     .ccd_long_ps = 5000,
     .wr_ps = 14990,
     .wtr_short_ps = 2500,
     .wtr_long_ps = 7500,
     .rtp_ps = 7500,
     .read_to_write_ps = 8330,
     .refresh_interval_ps = 7800210,
     .refresh_ps = 360690},
    {.name = "ddr4-3200",
     .source = "JESD79-4, speed bin 3200AA (22-22-22), 8 Gb x8",
     .pseudo_channels = 1,
     .bank_groups = 4,
     .banks_per_group = 4,
     .burst_bytes = 64,
     .row_bytes = 8192,
     .bytes = std::int64_t{8} << 30,
     .clock_ps = 625,
     .rcd_read_ps = 13750,
     .rcd_write_ps = 13750,
     .rp_ps = 13750,
     .rp_all_ps = 13750,
     .cl_ps = 13750,
     .cwl_ps = 10000,
     .burst_ps = 2500,
     .ras_ps = 32000,
     .rc_ps = 45750,
     .faw_ps = 21000,
     .rrd_short_ps = 2500,
     .rrd_long_ps = 4900,
     .ccd_short_ps = 2500,
     .ccd_long_ps = 5000,
     .wr_ps = 15000,
     .wtr_short_ps = 2500,
     .wtr_long_ps = 7500,
     .rtp_ps = 7500,
     .read_to_write_ps = 7500,  // CL - CWL + 4 cycles of data + 2
     .refresh_interval_ps = 7800000,
     .refresh_ps = 350000},
    {.name = "hbm2-2000",
     .source = "Ramulator 2.1 presets HBM2_4Gb, HBM2_2000Mbps (JESD235)",
     .pseudo_channels = 2,
     .bank_groups = 4,
     .banks_per_group = 4,
     .burst_bytes = 32,
     .row_bytes = 1024,
     .bytes = std::int64_t{1} << 30,
     .clock_ps = 1000,
     .rcd_read_ps = 14000,
     .rcd_write_ps = 12000,
     .rp_ps = 14000,
     .rp_all_ps = 14000,
     .cl_ps = 14000,
     .cwl_ps = 5000,
     .burst_ps = 2000,
     .ras_ps = 34000,
     .rc_ps = 48000,
     .faw_ps = 15000,
     .rrd_short_ps = 4000,
     .rrd_long_ps = 4000,
     .ccd_short_ps = 2000,
     .ccd_long_ps = 4000,
     .wr_ps = 16000,
     .wtr_short_ps = 6000,
     .wtr_long_ps = 8000,
     .rtp_ps = 5000,
     .read_to_write_ps = 13000,
     .refresh_interval_ps = 3900000,
     .refresh_ps = 260000,
     .activate_slots = 2,
     .split_command_bus = 1},
    {.name = "lpddr5-6400",
     .source = "Ramulator 2.1 presets LPDDR5_8Gb_x16, LPDDR5_6400 (JESD209-5)",
     .pseudo_channels = 1,
     .bank_groups = 4,
     .banks_per_group = 4,
     .burst_bytes = 32,
     .row_bytes = 2048,
     .bytes = std::int64_t{1} << 30,
     .clock_ps = 1250,
     .rcd_read_ps = 18750,
     .rcd_write_ps = 18750,
     .rp_ps = 18750,
     .rp_all_ps = 21250,
     .cl_ps = 21250,
     .cwl_ps = 11250,
     .burst_ps = 2500,
     .ras_ps = 42500,
     .rc_ps = 61250,
     .faw_ps = 20000,
     .rrd_short_ps = 5000,
     .rrd_long_ps = 5000,
     .ccd_short_ps = 2500,
     .ccd_long_ps = 5000,
     .wr_ps = 35000,
     .wtr_short_ps = 6250,
     .wtr_long_ps = 15000,
     .rtp_ps = 10000,
     .read_to_write_ps = 15000,
     .refresh_interval_ps = 3906250,
     .refresh_ps = 210000,
     .activate_in_two = 1,
     .clock_on_demand = 1},
}};

}  // namespace

DramCycles dram_cycles(std::int64_t picoseconds, std::int64_t clock_ps) {
  constexpr std::int64_t kSlack = 50;  // a fiftieth of a cycle
  return ceil_div(std::max<std::int64_t>(0, kSlack * picoseconds - clock_ps), kSlack * clock_ps);
}

DramTiming DramTiming::of(const DramDevice& device) {
  const auto cycles = [&](std::int64_t ps) { return dram_cycles(ps, device.clock_ps); };
  return {.rcd = {cycles(device.rcd_read_ps), cycles(device.rcd_write_ps)},
          .rp = cycles(device.rp_ps),
          .rp_all = cycles(device.rp_all_ps),
          .cl = cycles(device.cl_ps),
          .cwl = cycles(device.cwl_ps),
          .burst = cycles(device.burst_ps),
          .ras = cycles(device.ras_ps),
          .rc = cycles(device.rc_ps),
          .faw = cycles(device.faw_ps),
          .rrd_short = cycles(device.rrd_short_ps),
          .rrd_long = cycles(device.rrd_long_ps),
          .ccd_short = cycles(device.ccd_short_ps),
          .ccd_long = cycles(device.ccd_long_ps),
          .wr = cycles(device.wr_ps),
          .wtr_short = cycles(device.wtr_short_ps),
          .wtr_long = cycles(device.wtr_long_ps),
          .rtp = cycles(device.rtp_ps),
          .read_to_write = cycles(device.read_to_write_ps),
          .refresh_interval = cycles(device.refresh_interval_ps),
          .refresh = cycles(device.refresh_ps)};
}

double dram_peak_bytes_per_second(const DramDevice& device) {
  const DramCycles cycles = dram_cycles(device.ccd_short_ps, device.clock_ps);
  return 1e12 * device.pseudo_channels * device.burst_bytes /
         static_cast<double>(cycles * device.clock_ps);
}

DramDevice custom_dram_device() {
  DramDevice device = kDevices.back();  // lpddr5-6400
  device.name = "custom";
  device.source = "an architecture file";
  return device;
}

std::span<const DramDevice> dram_devices() { return kDevices; }

Result<const DramDevice*> find_dram_device(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::vector<std::string> names;
  for (const DramDevice& device : kDevices) {
    if (device.name == lower) return &device;
    names.emplace_back(device.name);
  }
  const std::string nearest = nearest_name(lower, names);
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("unknown DRAM device '{}';{} allowed {}", name,
                           nearest.empty() ? "" : fmt::format(" did you mean '{}'?", nearest),
                           fmt::join(names, ", "))};
}

}  // namespace tessera
