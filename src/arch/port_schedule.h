// The ports of the state buffer's banks, shared out in slots of time.
//
// A partition is cut into equal banks, each with its own read ports and write ports; all partitions
// do the same in the same cycle. A step that begins says how many cycles of each bank's ports it
// wants (isa/port_work.h) and how long it takes when nobody is in its way. It gets a part of each
// port for as long as it runs:
//
//   bank 0 read   |  array 1/8                                 |
//                 |       planar 7/8 ..........................|   wanted 8/8: takes 8/7 as long
//   time  ────────┴────────────────────────────────────────────┴──►
//
// Parts are in 65,536ths of a port and never add up to more than the ports. A part stays what it is
// until its step ends (a table of slots is set when a step begins). A step that finds ports taken
// may begin now with the part that is left, or wait until another step ends: whichever ends earlier,
// and of two that end together the one that begins earlier.
//
// Steps that ask in one cycle must ask in an order of their own, not that of a simulator's loop.
// Not for several threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/chip_config.h"
#include "arch/cost.h"

namespace tessera {

// What a step wants of one bank: cycles of one read port, cycles of one write port.
struct PortDemand {
  std::int32_t bank = 0;
  Cycles reads = 0, writes = 0;
};

struct PortSlot {
  Cycles begin = 0;
  Cycles end = 0;
  Cycles length() const { return end - begin; }
};

class PortSchedule {
 public:
  static constexpr std::int64_t kWholePort = 65536;

  // Each > 0.
  PortSchedule(std::int32_t banks, std::int32_t read_ports, std::int32_t write_ports);
  // None where the chip's ports never meet (banks = 0).
  static std::optional<PortSchedule> of(const ChipConfig& chip);

  void reset();
  // For a step that may begin `wait` cycles after `now` (>= 0) and then takes `occupancy` cycles
  // (> 0) if the ports are free. `now` never goes back. Banks may be named several times.
  PortSlot reserve(Cycles now, Cycles occupancy, std::span<const PortDemand> demands,
                   Cycles wait = 0);
  // How long the step takes while no other one runs.
  Cycles alone(Cycles occupancy, std::span<const PortDemand> demands);
  // Parts of the bank's read (write) ports that are given away in cycle `at`, at least the last
  // `now`.
  std::int64_t taken(std::int32_t bank, bool write, Cycles at) const;

 private:
  // From cycle `at` on, until the next change, so much is taken, in 65,536ths of a port.
  struct Change {
    Cycles at = 0;
    std::int64_t rate = 0;
  };
  struct Port {
    std::int64_t rate_max = 0;
    std::vector<Change> changes;  // in the order of time; before the first nothing is taken
    Cycles wanted = 0;            // by the step that asks
  };
  Port& port(std::int32_t bank, bool write) { return ports_[index(bank, write)]; }
  static std::size_t index(std::int32_t bank, bool write) {
    return 2 * static_cast<std::size_t>(bank) + (write ? 1 : 0);
  }
  // Notes in `wanted_` and its ports what the step wants.
  void want(std::span<const PortDemand> demands);
  static void forget(Port& port, Cycles now);
  // How long the step takes where it begins at `at`, or more than `most`.
  Cycles length(Cycles at, Cycles occupancy, Cycles most) const;
  // The most that is taken in any cycle of [first, last).
  static std::int64_t most_taken(const Port& port, Cycles first, Cycles last);
  static void add(Port& port, const PortSlot& slot, std::int64_t rate);
  // The change at `at`, made if there is none.
  static std::size_t change_at(Port& port, Cycles at);

  std::vector<Port> ports_;
  std::vector<std::size_t> wanted_;  // ports of the step that asks
  std::vector<Cycles> begins_;       // scratch
};

}  // namespace tessera
