// A card that several tenants use at once, or several cards: each tenant has a virtual processor, cores, memory
// and bandwidth of its own, and all are simulated on one clock.
//
//   tenant's thread ─ run ─┐
//   tenant's thread ─ run ─┤ lock ─► SharedCard: the thread in front steps the clock until its own run is
//   owner ─ other cores ───┘         over, then the next one does
//
// The clock goes on while anybody runs. Threads decide in which cycle a run begins, unless processors are
// in step (set_in_step()): then cycles follow from the runs alone.
//
// Other cores: networks are compiled for them while runs go on; the changeover waits for the run that is
// under way, clears the cores and memory that it had, which takes time on the clock, and places the networks
// anew. A processor may be left without cores: its runs end with kUnavailable until it has some.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/process_mark.h"
#include "base/result.h"
#include "card/shared_card.h"
#include "device/backend.h"
#include "device/card_network.h"
#include "device/preparation.h"
#include "tessera/card_status.h"
#include "tessera/core_split.h"

namespace tessera::device {

class VirtualProcessor;
class CardLock;
struct VirtualCardState;

// What a tenant asks for.
struct ProcessorShare {
  std::string name = {};               // empty: "tenant0", the lowest that is free
  int cores = 1;                       // that the card chooses (core_choice.h); 0: none yet
  std::vector<int> core_numbers = {};  // not empty: these
  // Of each group in which it has a core, rounded up to 4096; 0: a group's memory divided by its cores.
  std::int64_t memory_bytes = 0;
  std::int64_t weight = 1;  // 1 to engines::kTenantWeightMax
};

// For several threads at once. In a process that was forked off its calls are errors.
class VirtualCard {
 public:
  // As SharedCard::create().
  static Result<std::shared_ptr<VirtualCard>> create(const ChipConfig& chip, int cards = 1);

  const ChipConfig& chip() const;
  int cards() const;
  // The error names what is not free, or out of bounds. The processor's cores and memory go back, cleared,
  // with its last owner, who waits for that.
  Result<std::shared_ptr<VirtualProcessor>> take(const ProcessorShare& share);
  CardStatus status() const;

  // For tests, while nobody runs: what lies beneath.
  card::SharedCard& shared_card();

 private:
  explicit VirtualCard(std::shared_ptr<VirtualCardState> state);
  const std::shared_ptr<VirtualCardState> state_;  // shared with its processors
};

// The error names both if the network is for another architecture than the card.
Status check_chip(const NetworkState& network, const ChipConfig& chip);

// What a run on a virtual processor may be asked for.
struct ProcessorRun {
  const RunViews* views = nullptr;  // null: cycles only
  bool check_hazards = false, trace = false;
  std::uint8_t traps = 0;
};

// For several threads at once; runs of one processor follow each other.
class VirtualProcessor {
 public:
  // A program that was made and proved, for cores that lie so.
  struct Kept {
    std::vector<std::uint8_t> memory;  // as in CardPlacement
    int cards = 1;
    std::shared_ptr<const CardNetwork> compiled;  // shared with the program while it has it
  };
  // A network that is loaded on it.
  struct Program {
    std::shared_ptr<const NetworkState> network;
    CoreSplit split = CoreSplit::kAuto;
    int images = 1;                               // that a run makes, each on a team of the cores
    std::shared_ptr<const CardNetwork> compiled;  // for the cores that the processor has
    std::size_t number = 0;                       // on the card
    // The last one first; and those that are not made before they are wanted: they did not fit, or could not be made,
    // which is the error of who wants them. With the processor's kept_mutex_ held.
    std::vector<Kept> kept, declined;
  };
  // The programs that a change has taken for the networks: compiled, filled in from a package's templates, or kept
  // since the last time that it had as many cores that lie so.
  struct LastLink {
    std::chrono::nanoseconds time{};
    int compiled = 0, filled_in = 0, kept = 0;
  };
  // Kept of a network, about; what was not used for longest goes first.
  static constexpr std::int64_t kKeptBytesMax = std::int64_t{128} << 20;

  ~VirtualProcessor();
  VirtualProcessor(const VirtualProcessor&) = delete;
  VirtualProcessor& operator=(const VirtualProcessor&) = delete;

  const ChipConfig& chip() const;
  const std::string& name() const { return name_; }
  std::int64_t memory_bytes() const { return memory_bytes_; }
  ProcessorStatus status() const;
  const std::shared_ptr<VirtualCardState>& card() const { return card_; }

  // Compiles the network for the cores that it has, and again for each others that it gets; places it in
  // its memory. It stays until it is removed. With several images the cores are as many teams, whatever
  // their number, and the network has the inputs and outputs of all.
  Result<std::shared_ptr<Program>> add(const std::shared_ptr<const NetworkState>& network,
                                       CoreSplit split, int images = 1);
  void remove(const std::shared_ptr<Program>& program);
  // Waits for the run before, and for the end of this one.
  Result<RunResult> run(const Program& program, const ProcessorRun& run);

  // Other cores: so many, of which it keeps what it can, or just these; none: it gives up all. Runs that
  // are under way end on the old ones. After an error it has what it had.
  Status resize(int cores);
  Status move(std::vector<int> cores);
  // Of its last change.
  LastLink last_link() const;

  // From now on a thread of low priority makes ready for changes, one after the other from the nearest number of cores
  // on: links and proves the programs for which the networks' packages have templates, as long as what is kept for a
  // network is no more than `kept_bytes_max`, and finds out how long clearing takes. Changes go first, and wait for no other programs than their
  // own; bits and cycles are the same without. It ends with the processor, who waits for the program in hand. Where
  // the system has no thread for it, nothing is made ready. To be called before other threads use the processor.
  void prepare_changes(std::int64_t kept_bytes_max = kKeptBytesMax);
  // What the thread has done so far.
  struct PreparedChanges {
    std::int64_t programs = 0, clearings = 0;
    bool over = true;  // there is nothing left to do for what is loaded now
  };
  PreparedChanges prepared_changes() const;
  // Whether that is so within the time.
  bool wait_until_prepared(std::chrono::milliseconds limit) const;

  // In step, the clock stands still whenever this processor has no run: runs that follow each other leave
  // no gap, and those of several in step begin together, whatever their threads do. Whoever leaves it
  // on and begins no run stops the whole card.
  void set_in_step(bool in_step);

 private:
  friend class VirtualCard;
  VirtualProcessor(std::shared_ptr<VirtualCardState> card, std::string name, std::int64_t memory,
                   std::int64_t weight)
      : card_(std::move(card)), name_(std::move(name)), memory_bytes_(memory), weight_(weight) {}

  // Cores with what lies on them.
  struct Move {
    std::vector<int> cores = {};
    CardPlacement placement = {};
    engines::DramRange range = {};
    std::vector<std::shared_ptr<const CardNetwork>> compiled = {};  // by program
    LastLink link = {};
  };
  using Choice = std::function<Result<std::vector<int>>()>;
  Status change(const Choice& choose);
  Status reserve(const Choice& choose, Move& move);
  void forget(const Move& move);
  Status compile(Move& move) const;
  Result<std::shared_ptr<const CardNetwork>> program_for(Program& program,
                                                         const CardPlacement& placement,
                                                         LastLink& link) const;
  Result<CardNetwork> compile(const Program& program, const CardPlacement& placement) const;
  std::shared_ptr<const CardNetwork> find_kept(Program& program,
                                               const CardPlacement& placement) const;
  void keep(Program& program, const CardPlacement& placement,
            std::shared_ptr<const CardNetwork> compiled) const;
  bool keep_if_it_fits(Program& program, const CardPlacement& placement,
                       Result<CardNetwork> made) const;
  bool is_settled(const Program& program, const CardPlacement& placement) const;
  bool learn_clearing(const engines::DramRange& had, const std::function<bool()>& stop) const;
  void learn_own_clearing() const;
  struct Ahead;  // a change that may come
  std::vector<Ahead> changes_ahead() const;
  bool prepare(const Ahead& ahead, const Preparation& by);
  bool prepare_clearing(const Ahead& ahead, const Preparation& by);
  Status change_over(const Move& move);
  Status settle_on(const Move& move, CardLock& lock);
  Result<engines::DramRange> choose_range(const CardPlacement& placement) const;
  Status load(Program& program);
  void clear(CardLock& lock);
  Error no_cores() const;
  ProcessorStatus status_locked() const;
  struct Flight;  // a run
  void end_flight(Flight& flight, card::TenantResult&& end);
  struct Rest;  // in which nothing of it runs

  const std::shared_ptr<VirtualCardState> card_;  // shared with the card's other processors
  const std::string name_;
  const std::int64_t memory_bytes_, weight_;
  std::mutex change_mutex_;  // of one that changes cores or programs; before the card's lock

  // With the card's lock held:
  std::vector<int> cores_;
  CardPlacement placement_;
  engines::DramRange range_;
  card::TenantId tenant_ = 0;  // on the shared card, where it has cores
  std::vector<std::shared_ptr<Program>> programs_;
  const Move* pending_ = nullptr;  // what is reserved for a change
  bool running_ = false;           // until what it gave has been taken
  bool flies_ = false;             // until its run, or the clearing, has ended on the clock
  bool clearing_ = false;
  bool changing_ = false, in_step_ = false;
  ProcessorStatus counters_;

  mutable std::mutex link_mutex_;  // of what follows, and no other is taken behind it
  LastLink last_link_;
  mutable std::mutex kept_mutex_;  // of the programs' lists, and no other is taken behind it
  PreparedChanges prepared_;       // but for `over`; with link_mutex_ held
  std::int64_t ahead_bytes_max_ = kKeptBytesMax;  // before `preparation_`, whose thread reads it
  std::unique_ptr<Preparation> preparation_;      // null: nothing is made ready
};

}  // namespace tessera::device
