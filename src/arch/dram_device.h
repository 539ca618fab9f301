// What a DRAM device is: sizes and times of one channel, as rows of a table with their sources.
// Times are picoseconds; a model that steps in the device's own clock rounds each up once
// (DramTiming).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace tessera {

// A point in time or a duration, in clock cycles of a DRAM device.
using DramCycles = std::int64_t;

struct DramDevice {
  std::string_view name;    // "ddr4-2400"
  std::string_view source;  // where the figures are from

  // One channel of one rank. Sizes are powers of two.
  std::int32_t pseudo_channels = 1;  // halves with data buses of their own and common command buses
  std::int32_t bank_groups = 1;      // of a pseudo-channel
  std::int32_t banks_per_group = 1;
  std::int32_t burst_bytes = 64;
  std::int32_t row_bytes = 8192;  // of one bank
  std::int64_t bytes = 0;         // of the channel

  std::int64_t clock_ps = 1000;
  std::int64_t rcd_read_ps = 0;          // activation to read
  std::int64_t rcd_write_ps = 0;         // activation to write
  std::int64_t rp_ps = 0;                // precharge to activation, one bank
  std::int64_t rp_all_ps = 0;            // precharge to refresh, all banks
  std::int64_t cl_ps = 0;                // read to its first data
  std::int64_t cwl_ps = 0;               // write to its first data
  std::int64_t burst_ps = 0;             // data of one burst
  std::int64_t ras_ps = 0;               // activation to precharge
  std::int64_t rc_ps = 0;                // activation to activation, one bank
  std::int64_t faw_ps = 0;               // window of four activations
  std::int64_t rrd_short_ps = 0;         // activation to activation, other bank group
  std::int64_t rrd_long_ps = 0;          // the same, one bank group
  std::int64_t ccd_short_ps = 0;         // column command to column command, other bank group
  std::int64_t ccd_long_ps = 0;          // the same, one bank group
  std::int64_t wr_ps = 0;                // end of write data to precharge
  std::int64_t wtr_short_ps = 0;         // end of write data to read, other bank group
  std::int64_t wtr_long_ps = 0;          // the same, one bank group
  std::int64_t rtp_ps = 0;               // read to precharge
  std::int64_t read_to_write_ps = 0;     // read command to write command
  std::int64_t refresh_interval_ps = 0;  // between refreshes of all banks
  std::int64_t refresh_ps = 0;           // what one takes

  std::int32_t activate_slots = 1;  // cycles of the command bus that an activation takes
  // Each 0 or 1.
  std::int32_t split_command_bus = 0;  // one for rows and one for columns
  std::int32_t activate_in_two = 0;    // an activation is two commands; times count from the first
  std::int32_t clock_on_demand = 0;    // the data clock stops, and a command more starts it
  friend bool operator==(const DramDevice&, const DramDevice&) = default;
};

// The same times in cycles of the device's clock.
struct DramTiming {
  DramCycles rcd[2] = {0, 0};  // read, write
  DramCycles rp = 0, rp_all = 0, cl = 0, cwl = 0, burst = 0, ras = 0, rc = 0, faw = 0;
  DramCycles rrd_short = 0, rrd_long = 0, ccd_short = 0, ccd_long = 0, wr = 0;
  DramCycles wtr_short = 0, wtr_long = 0, rtp = 0, read_to_write = 0;
  DramCycles refresh_interval = 0, refresh = 0;

  static DramTiming of(const DramDevice& device);
};

// A time in cycles, rounded up. What exceeds a whole number of cycles by less than a fiftieth of
// one is that number: data sheets round their picoseconds.
DramCycles dram_cycles(std::int64_t picoseconds, std::int64_t clock_ps);

// Bytes per second of all data buses without a gap.
double dram_peak_bytes_per_second(const DramDevice& device);

// What the keys of [dram_custom] change: "custom", the figures of lpddr5-6400.
DramDevice custom_dram_device();

// The table.
std::span<const DramDevice> dram_devices();
// By name, in letters of either case. An error names the nearest and all there are. The device
// lives as long as the program.
Result<const DramDevice*> find_dram_device(std::string_view name);

}  // namespace tessera
