// The stage that runs a model on devices.
//
//   for each run of each packet of the batch:   blocks ─► inputs over ─► submit      (all of them)
//   then, in the same order:                    wait ─► outputs back ─► blocks free
//
// At most kRunsInFlight at once: the oldest is waited for before the next begins. A run whose
// tensors find no room on the device waits for those of others; it is an error where there are
// none.
//
// A kernel has a queue of its own, so while one thread of the stage waits for its batch another one
// brings the next over: with two threads a kernel it goes from run to run without a gap.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pipeline/stage.h"
#include "runtime/debugging.h"
#include "runtime/network_packet.h"
#include "runtime/run_tensors.h"
#include "runtime/runtime_state.h"

namespace tessera::runtime {

class ExecuteStage : public pipeline::StageFunction {
 public:
  // Of the devices that hold the model, those named; all, if none is. `debugging` outlives the
  // stage.
  static Result<std::shared_ptr<ExecuteStage>> create(std::shared_ptr<ModelState> model,
                                                      const std::vector<std::string>& devices,
                                                      const OutputRules& rules,
                                                      Debugging& debugging);

  void run(std::span<const pipeline::PacketPtr> batch) override;

  // Time of its runs on kernels, of all kernels together.
  pipeline::Nanoseconds kernel_time() const { return kernel_time_.load(std::memory_order_relaxed); }
  // The first so many of its kernels are used.
  int kernels() const { return kernels_.load(std::memory_order_relaxed); }
  int kernels_max() const { return static_cast<int>(places_.size()); }
  void set_kernels(int kernels) { kernels_.store(kernels, std::memory_order_relaxed); }

 private:
  struct Place {
    DeviceEntry* device = nullptr;
    device::LoadedId loaded{};
    int kernel = 0;
  };
  struct RunInFlight;
  struct Scratch;

  ExecuteStage(std::shared_ptr<ModelState> model, std::vector<Place> places,
               const OutputRules& rules, Debugging& debugging);

  // The usable kernel with the shortest queue; null if no device is usable.
  const Place* choose(const DeviceEntry* home);
  const Place* choose_or_fail(NetworkPacket& packet, std::size_t run);
  RunOf run_of(const RunInFlight& run) const;
  void start(NetworkPacket& packet, std::size_t run, const Place& place, Scratch& scratch);
  void finish_until(Scratch& scratch, std::size_t left);
  void finish(RunInFlight& run);
  Status bring_over(RunInFlight& run);
  Status bring_over_in_turn(RunInFlight& run, Scratch& scratch);
  void release(RunInFlight& run, bool over);
  void fail(RunInFlight& run, pipeline::Failure why, const Error& error);
  void run_on_host(const pipeline::PacketPtr& packet);
  Status check_values(const std::string& device) const;
  void compare_with_host(const pipeline::PacketPtr& packet,
                         const std::vector<std::vector<Tensor>>& inputs);

  std::unique_ptr<Scratch> take_scratch();
  void give_back(std::unique_ptr<Scratch> scratch);

  const std::shared_ptr<ModelState> model_;  // shared with the application's handles
  const std::vector<Place> places_;
  const OutputRules rules_;
  Debugging& debugging_;
  std::atomic<int> kernels_;
  std::atomic<std::size_t> turn_{0};
  std::atomic<pipeline::Nanoseconds> kernel_time_{0};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> scratches_;
};

}  // namespace tessera::runtime
