// The stage that runs a model on devices.
//
//   packets wait ─► place: the kernel where the run is over first ─► blocks, inputs over ─► submit
//   (StagePort)                                                                              │
//        ▲ taken back, if it has not begun     the device reports its end ◄──────────────────┘
//        └── and would be over earlier elsewhere       └─► outputs back ─► blocks free ─► packet on
//
// No thread waits for a run: the stage keeps packets (pipeline/keeper.h), and each goes on as soon
// as its own runs are over. A kernel is given few runs at a time, one that it runs and one or two
// whose inputs are over, so that it goes from run to run without a gap; what else waits, waits
// before the stage, and goes to whatever kernel has room when it has. A run whose tensors find no
// room on the device waits for those of others; it is an error where there are none.
//
// What each kernel is expected to take is in run_times.h, the choice in place_choice.h and
// execute_choice.cc, the way of the tensors in run_tensors.h, what is done where a device's memory
// is short in execute_memory.cc, runs that last far too long in execute_again.cc. Packets that
// debugging sends to the host: execute_debugging.cc.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/keeper.h"
#include "runtime/deadline_clock.h"
#include "runtime/debugging.h"
#include "runtime/network_packet.h"
#include "runtime/place_choice.h"
#include "runtime/run_tensors.h"
#include "runtime/runtime_state.h"

namespace tessera::runtime {

class ExecuteStage : public pipeline::Keeper,
                     private device::RunListener,
                     private RunMemory::Waiter,
                     private RunMemory::Holder,
                     private DeadlineClock::Alarm {
 public:
  struct Options {
    std::vector<std::string> devices = {};  // of those that hold the model; empty: all
    OutputRules rules = {};
    int waiting_max = 16;  // runs given to a kernel beyond the one it runs
  };
  // `debugging` and `clock` outlive the stage.
  static Result<std::shared_ptr<ExecuteStage>> create(std::shared_ptr<ModelState> model,
                                                      const Options& options, Debugging& debugging,
                                                      DeadlineClock& clock);

  void attach(pipeline::StagePort& port) override;
  void detach() override;
  void work() override;
  bool is_short() override;
  bool work_briefly() override;
  void sweep() override;

  // Time of its runs on kernels, of all kernels together.
  pipeline::Nanoseconds kernel_time() const { return kernel_time_.load(std::memory_order_relaxed); }
  // The number of its kernels that are used.
  int kernels() const { return kernels_.load(std::memory_order_relaxed); }
  int kernels_max() const { return static_cast<int>(places_.size()); }
  void set_kernels(int kernels);

 private:
  struct Run;
  // A kernel with the model. What changes is changed with the lock held.
  struct Place {
    DeviceEntry* device = nullptr;
    device::LoadedId loaded{};
    int kernel = 0;
    int coming = 0;                // runs chosen for it whose inputs go over
    std::vector<Run*> given = {};  // submitted, in that order
    bool short_of_memory = false;  // until it is notified that there may be some
    bool in_turn = false;          // it was notified
  };
  enum class Phase : std::uint8_t { kDevices, kHost };
  // A packet of which at least one run was begun, or was taken back.
  struct Held {
    pipeline::PacketPtr packet;
    Phase phase = Phase::kDevices;
    bool compare = false;                              // on devices first, then on the host
    bool ending = false;                               // no more of its runs are begun
    std::size_t next = 0;                              // the first run that was not begun
    int open = 0;                                      // runs begun and not over
    bool dropped = false;                              // it failed before any run was begun
    Held* behind = nullptr;                            // in a list of those that leave
    std::vector<std::size_t> again;                    // runs that were taken back
    std::vector<std::uint8_t> given_up;                // of each run, how many times it was
    std::vector<std::vector<Tensor>> inputs, results;  // kept for the comparison

    NetworkPacket& task() const { return network_packet(packet); }
    std::size_t next_index() const { return again.empty() ? next : again.back(); }
    std::size_t waiting() const { return again.size() + (task().task.runs.size() - next); }
  };
  // One run of one packet, from its choice to its outputs.
  struct Run {
    Held* held = nullptr;
    std::size_t index = 0;
    Place* place = nullptr;
    device::SequenceNumber sequence{};
    RunTensors tensors;
    device::RunListener::End end;
    pipeline::Nanoseconds in = 0;  // what its inputs took
    pipeline::Nanoseconds submitted = 0;
    // By its values when it begins: its end changes them, without the lock.
    bool plain = false;                 // tensors in, tensors out: it may be made again
    const DeviceEntry* home = nullptr;  // that holds blocks of it
    bool over = false;                  // the device has reported it; with the events' lock
    Run* behind = nullptr;              // in the list of those that are over
  };
  // Those to be released when the lock is not held any more; a list through the packets held.
  struct Leaving {
    Held* first = nullptr;
    Held* last = nullptr;
    void add(Held& held);
  };

  ExecuteStage(std::shared_ptr<ModelState> model, std::vector<Place> places, const Options& options,
               Debugging& debugging, DeadlineClock& clock);

  void run_over(void* context, End&& end) override;
  void memory_given() override;
  void memory_short() override;
  void ring() override;

  // Each is false if there was nothing to do.
  bool work_once();
  bool bring_to_host_some();
  bool look_around(Leaving& leaving);
  bool finish_some();
  bool place_some();
  Run* take_over();
  void finish(Run& run, Leaving& leaving);
  // True: the kernel waits for this thread, which is to run it (Device::run_queued).
  bool bring(Run& run, Leaving& leaving);

  // With the lock held.
  Run* next_run(Leaving& leaving);
  Held* next_held(std::size_t passed_over) const;
  Held* adopt(pipeline::StagePort::End end, Leaving& leaving);
  bool adopt_handed(Leaving& leaving);  // false: there is none
  Held* take_in(Held& held, Leaving& leaving);
  void prepare_values(NetworkPacket& packet, DebugMode mode, std::size_t runs);
  Held& take_held();
  Run& take_run();
  Run* begin_run(Held& held, Place& place, const DeviceEntry* home);
  struct Chosen {
    Place* place = nullptr;
    bool best = true;
    bool none_usable = false;
  };
  // `home`: a device that holds blocks of the run; where it is of this stage and in order, one of
  // its kernels.
  Chosen choose(int priority, const DeviceEntry* home);
  Chosen choose_on(int priority, const DeviceEntry* only);
  void note_values(NetworkPacket& packet, const device::Completion& completion) const;
  RunOf run_of(const Run& run) const;
  double backlog() const;
  std::span<Place> used_places();
  PlaceLoad load_of(const Place& place, int priority, pipeline::Nanoseconds now);
  bool has_room(const Place& place, const PlaceLoad& load, int priority) const;
  bool submit(Run& run, Leaving& leaving);  // true as with bring()
  bool is_alone(const Run& run) const;
  bool is_short(const Place& place) const;
  // Runs that wait on a kernel and would be over well before elsewhere wait before the stage again.
  bool take_back_early(bool rang);
  bool take_back_from(std::size_t place);
  bool withdraw(Run& run, bool give_up);
  // execute_again.cc: runs that last far too long are given up and made elsewhere.
  static bool may_be_made_again(const Run& run);
  static bool may_be_given_up(const Run& run);
  std::optional<std::vector<Tensor>> inputs_of(Run& run);
  pipeline::Nanoseconds far_too_late(Place& place, pipeline::Nanoseconds now);
  bool make_again_late(Leaving& leaving);
  bool make_again(Run& run, Leaving& leaving);
  void take_back_behind(Place& place);
  bool watches_runs();
  void wait_again(Run& run);
  // `over`: the device has done with what the run holds.
  void put_aside(Run& run, bool over);
  void end_runs(Held& held, bool give_up);
  void fail(Held& held, const Place& place, pipeline::Failure why, Error error);
  void fail_for_want_of_devices(Held& held, Leaving& leaving);
  void leave_if_over(Held& held, Leaving& leaving);
  void note_to_start(Held& held);
  // execute_memory.cc
  void look_for_memory();
  void give_up_memory_turns();
  bool is_memory_short() const;
  // An input or output that stayed on a device, of a run that is not open.
  struct Stayed {
    Held* held = nullptr;
    std::uint64_t packet = 0;
    std::size_t run = 0, input = 0;
    std::shared_ptr<BlockState> block;  // shared with the packet
  };
  void note_stayed(Held& held, std::vector<Stayed>& stayed) const;
  bool is_open(const Held& held, std::size_t index) const;
  void bring_to_host(Stayed& stayed);  // takes the lock
  void set_alarm(pipeline::Nanoseconds now);

  void hand_over(Leaving& leaving);
  // execute_debugging.cc
  void prepare_host();
  void begin_comparison(Held& held);  // with the lock held
  Status check_values(const std::string& device) const;
  void compare(Held& held);
  void compare_results(Held& held);

  const std::shared_ptr<ModelState> model_;  // shared with the application's handles
  std::vector<Place> places_;
  const OutputRules rules_;
  const int waiting_max_;
  Debugging& debugging_;
  DeadlineClock& clock_;
  pipeline::StagePort* port_ = nullptr;
  std::atomic<int> kernels_;
  std::atomic<pipeline::Nanoseconds> kernel_time_{0};
  std::atomic<std::uint64_t> memory_gives_{0};  // times that it was notified of memory
  std::atomic<bool> rang_{false}, memory_short_{false};

  std::mutex mutex_;  // of what follows; before a device's lock
  std::vector<std::unique_ptr<Held>> all_held_;
  std::vector<std::unique_ptr<Run>> all_runs_;
  std::vector<Held*> free_held_, held_;
  std::vector<Held*> to_start_;  // of those held the ones with runs that wait; the next in front
  std::vector<Run*> free_runs_;
  std::size_t turn_ = 0;
  double runs_a_packet_ = 1;  // lately
  std::vector<PlaceLoad> loads_;
  device::KernelWork kernel_work_;
  Place host_;                // for debugging
  bool host_wanted_ = false;  // by a packet, and not loaded yet
  pipeline::Nanoseconds alarm_at_ = 0;
  bool alarm_for_waiting_ = false;  // else for runs without others behind them
  std::uint64_t memory_gives_seen_ = 0;

  std::mutex events_mutex_;  // of what devices report; only a queue's is taken within
  Run* over_first_ = nullptr;
  Run* over_last_ = nullptr;
};

}  // namespace tessera::runtime
