// How long runs are expected to take, on each kernel and of each program: what they took lately, or
// what the model of the processor says before one has been measured.
//
//   modelled ─► first of this kernel ─► mean of the latest ─► (no run for long) ─► less and
//               or of one beside it      eight or so                               less weight
//
// Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "base/table.h"
#include "device/device.h"
#include "pipeline/packet.h"

namespace tessera::runtime {

class RunTimes {
 public:
  explicit RunTimes(int kernels) : kernels_(kernels) {}

  struct Expected {
    pipeline::Nanoseconds run = 0;          // on the kernel
    pipeline::Nanoseconds in = 0, out = 0;  // its transfers
    bool known = false;                     // else nothing ran yet, and no model says anything
    bool measured = false;                  // on this kernel
  };

  void set_modelled(device::LoadedId loaded, pipeline::Nanoseconds run);
  void ran(device::LoadedId loaded, int kernel, pipeline::Nanoseconds lasted,
           pipeline::Nanoseconds now);
  void moved(device::LoadedId loaded, bool to_device, pipeline::Nanoseconds lasted);
  Expected of(device::LoadedId loaded, int kernel, pipeline::Nanoseconds now) const;
  void forget(device::LoadedId loaded);
  std::size_t programs() const;

 private:
  struct Mean {
    pipeline::Nanoseconds value = 0;
    pipeline::Nanoseconds at = 0;  // of the latest
    int count = 0;
    void add(pipeline::Nanoseconds lasted);
  };
  struct Program {
    Table<int, Mean> kernels;
    Mean all, in, out;
    pipeline::Nanoseconds modelled = 0;
  };
  // With the lock held. Null: there is no memory for it.
  Program* program(device::LoadedId loaded) noexcept;

  const int kernels_;
  mutable std::mutex mutex_;
  std::map<device::LoadedId, Program> programs_;
};

// Until a run that began `elapsed` ago and was to take `expected` is over. Once it is late it is
// expected to take as long again as it is late: what hangs is expected ever later.
pipeline::Nanoseconds expected_rest(pipeline::Nanoseconds elapsed, pipeline::Nanoseconds expected);

}  // namespace tessera::runtime
