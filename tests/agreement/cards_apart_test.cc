// Cards of a program in several processes, here as threads: cycles, statistics and bits of all cards in one.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "arch/architecture_file.h"
#include "card/card.h"
#include "compile/compile_shares.h"
#include "compile/testing/random_graph.h"
#include "device/segment_use.h"
#include "isa/verify.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using card::Card;
using card::CardPeers;
using card::CardStatistics;
using compile::Split;
using GraphPointer = std::shared_ptr<const graph::Graph>;

// The long form.
bool is_whole() { return std::getenv("TESSERA_TEST_WHOLE") != nullptr; }

// Where threads meet after each window.
class Meeting {
 public:
  explicit Meeting(std::size_t processes) : came_(processes), order_(processes) {}

  // All batches of a round by sender, then receiver; nothing: somebody has left.
  std::optional<std::vector<CardPeers::Batches>> meet(std::size_t process, CardPeers::Batches own) {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    came_[process] = std::move(own);
    if (++here_ == came_.size()) {
      here_ = 0;
      ++round_;
      all_ = std::exchange(came_, std::vector<CardPeers::Batches>(order_));
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || left_; });
    if (round_ == round) return std::nullopt;
    return all_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CardPeers::Batches> came_, all_;
  const std::size_t order_;
  std::size_t here_ = 0;
  std::uint64_t round_ = 0;
  bool left_ = false;
};

// Flips one bit of what a process sends, in one of its first windows.
struct Damage {
  std::size_t process = 0;
  std::uint64_t window = 0, bit = 0;
};

class ThreadPeers : public CardPeers {
 public:
  ThreadPeers(Meeting& meeting, std::size_t process, std::optional<Damage> damage)
      : meeting_(meeting), process_(process), damage_(damage) {}
  Result<Batches> exchange(Batches own) override {
    const std::size_t processes = own.size();
    if (damage_.has_value() && damage_->process == process_ && damage_->window == window_++) {
      for (auto& batch : own) {
        if (batch.empty()) continue;
        const std::uint64_t bit = damage_->bit % (8 * batch.size());
        batch[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      }
    }
    auto all = meeting_.meet(process_, std::move(own));
    if (!all.has_value()) return Error{ErrorCode::kUnavailable, "a process has left"};
    Batches mine(processes);
    for (std::size_t from = 0; from < processes; ++from) {
      if (from != process_) mine[from] = std::move((*all)[from][process_]);
    }
    return mine;
  }

 private:
  Meeting& meeting_;
  const std::size_t process_;
  const std::optional<Damage> damage_;
  std::uint64_t window_ = 0;
};

struct ApartRun {
  std::vector<CardStatistics> segments;
  std::vector<Tensor> outputs;
};

struct Case {
  const isa::CardProgram& program;
  const ChipConfig& chip;
  const CardPlacement& placement;
  const std::vector<Tensor>& inputs;
  const card::CoreOptions& options;
};

std::vector<Card::TensorPlace> outputs_of(const isa::Program& first) {
  std::vector<Card::TensorPlace> places;
  for (const isa::TensorSlot& slot : first.outputs) {
    places.push_back({slot.address, std::ssize(Tensor::zeros(slot.format, slot.dims).bytes)});
  }
  return places;
}

Result<std::unique_ptr<Card>> loaded(const Case& of, card::CardsHere here) {
  TESSERA_TRY(auto card, Card::create(of.chip, of.placement, std::move(here)));
  TESSERA_RETURN_IF_ERROR(card->load(of.program));
  const isa::Program& first = of.program.cores[0];
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(card->write(first.inputs[i].address, of.inputs[i].bytes));
  }
  return card;
}

Result<std::vector<Tensor>> read_outputs(const Case& of, const Card& card) {
  std::vector<Tensor> outputs;
  for (const isa::TensorSlot& slot : of.program.cores[0].outputs) {
    outputs.push_back(Tensor::zeros(slot.format, slot.dims));
    TESSERA_RETURN_IF_ERROR(card.read(slot.address, outputs.back().bytes));
  }
  return outputs;
}

Result<ApartRun> run_together(const Case& of) {
  TESSERA_TRY(const auto card, loaded(of, {.process_of_card = {}, .peers = nullptr}));
  ApartRun run;
  for (std::size_t segment = 0; segment < of.program.cores[0].segments.size(); ++segment) {
    TESSERA_TRY(run.segments.emplace_back(), card->run_segment(segment, of.options));
  }
  TESSERA_TRY(run.outputs, read_outputs(of, *card));
  return run;
}

// Of one process: what it has of each segment, and the bytes of outputs that its cards wrote.
struct OfProcess {
  std::unique_ptr<Card> card;
  std::vector<CardStatistics> segments;
  std::vector<std::vector<std::byte>> written;  // by segment
  Status status;
};

void run_process(const Case& of, Meeting& meeting, std::size_t process,
                 const std::vector<int>& process_of_card, const std::optional<Damage>& damage,
                 OfProcess& result) {
  ThreadPeers peers(meeting, process, damage);
  result.status = [&]() -> Status {
    TESSERA_TRY(result.card, loaded(of, {.process_of_card = process_of_card,
                                         .process = static_cast<int>(process),
                                         .peers = &peers}));
    const auto outputs = outputs_of(of.program.cores[0]);
    for (std::size_t segment = 0; segment < of.program.cores[0].segments.size(); ++segment) {
      TESSERA_TRY(result.segments.emplace_back(), result.card->run_segment(segment, of.options));
      const auto by_process = result.card->written_by(segment, outputs);
      result.written.push_back(result.card->read_runs(by_process[process]));
    }
    return {};
  }();
  if (!result.status.ok() || damage.has_value()) meeting.leave();
}

Result<ApartRun> run_apart(const Case& of, const std::vector<int>& process_of_card,
                           const std::optional<Damage>& damage = {}) {
  const auto processes = static_cast<std::size_t>(process_of_card.back()) + 1;
  Meeting meeting(processes);
  std::vector<OfProcess> results(processes);
  std::vector<std::thread> threads;
  for (std::size_t process = 0; process < processes; ++process) {
    threads.emplace_back([&, process] {
      run_process(of, meeting, process, process_of_card, damage, results[process]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const OfProcess& one : results) TESSERA_RETURN_IF_ERROR(one.status);
  ApartRun run{results[0].segments, {}};
  Card& first = *results[0].card;
  const auto outputs = outputs_of(of.program.cores[0]);
  for (std::size_t segment = 0; segment < run.segments.size(); ++segment) {
    const auto by_process = first.written_by(segment, outputs);
    for (std::size_t process = 1; process < processes; ++process) {
      // Through bytes and back, as between machines.
      const auto sent = card::encode_statistics(results[process].segments[segment]);
      TESSERA_TRY(const CardStatistics statistics, card::parse_statistics(sent));
      TESSERA_RETURN_IF_ERROR(card::check_statistics(statistics, of.program, segment,
                                                     run.segments[segment].shared.size()));
      first.add_statistics(static_cast<int>(process), statistics, run.segments[segment]);
      TESSERA_RETURN_IF_ERROR(
          first.write_runs(by_process[process], results[process].written[segment]));
    }
  }
  TESSERA_TRY(run.outputs, read_outputs(of, first));
  return run;
}

struct Shape {
  const char* name;
  int groups, cores_per_group, cards;
  std::vector<int> process_of_card;
  bool merge = true, forward = true, needed_bytes_only = true;
};

ChipConfig shaped(const Shape& shape) {
  ChipConfig chip = *load_chip_config("cloud16");
  chip.card.groups = shape.groups;
  chip.card.cores_per_group = shape.cores_per_group;
  chip.card.features.merge = chip.card.features.broadcast = shape.merge ? 1 : 0;
  chip.card.features.forward = shape.forward ? 1 : 0;
  chip.card.features.needed_bytes_only = shape.needed_bytes_only ? 1 : 0;
  chip.card.features.hand_over = shape.forward && shape.needed_bytes_only ? 1 : 0;
  chip.card.features.instruction_sync = chip.card.features.loads_beside_arithmetic =
      chip.card.features.dynamic_bandwidth = shape.forward ? 1 : 0;
  return chip;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"two cards, two processes", 2, 2, 2, {0, 1}},
      {"four cards, four processes", 2, 1, 4, {0, 1, 2, 3}},
      {"four cards, two processes", 1, 2, 4, {0, 0, 1, 1}},
      {"three cards, three processes, nothing merged", 2, 2, 3, {0, 1, 2}, false},
      {"two cards, whole results", 2, 2, 2, {0, 1}, true, true, false},
      {"three cards, plain, whole results", 1, 2, 3, {0, 1, 2}, false, false, false},
  };
  return all;
}

Result<isa::CardProgram> program_of(const GraphPointer& graph, const ChipConfig& chip,
                                    const CardPlacement& placement, Split split) {
  compile::ShareChoice choice{
      .cores = static_cast<int>(placement.core.size()), .split = split, .of_nodes = {}};
  if (chip.card.features.forward != 0) choice.memory_of_core = placement.memory;
  choice.hand_over = chip.card.features.hand_over != 0;
  choice.meet_after_layers = chip.card.features.instruction_sync == 0;
  choice.load_before_arithmetic = chip.card.features.loads_beside_arithmetic == 0;
  TESSERA_TRY(compile::SharedProgram shared, compile::compile_shares(graph, chip, {}, choice));
  TESSERA_RETURN_IF_ERROR(isa::verify_card_program(shared.card, chip));
  return std::move(shared.card);
}

// As text, so that a difference says where it is.
std::string rows_of(const CardStatistics& statistics) {
  std::string text = "cycles " + std::to_string(statistics.cycles) + ", row misses " +
                     std::to_string(statistics.row_misses) + "\n";
  const auto add = [&text](const card::EngineStatistics& row) {
    text += row.name;
    for (const std::int64_t number :
         {row.busy, row.blocked_dependency, row.blocked_memory, row.blocked_ports, row.idle,
          row.tasks, row.steps, row.macs, row.bytes_read, row.bytes_written, row.share_cycles,
          row.wire_bytes}) {
      text += " " + std::to_string(number);
    }
    for (const Cycles cycles : row.blocked_on_core) text += " core " + std::to_string(cycles);
    text += "\n";
  };
  for (const auto& row : statistics.shared) add(row);
  for (const card::RequestWait& wait : statistics.waits) {
    text += "wait";
    for (const std::int64_t number :
         {std::int64_t(wait.what), std::int64_t{wait.who}, std::int64_t{wait.other},
          std::int64_t{wait.share}, std::int64_t{wait.cycles}}) {
      text += " " + std::to_string(number);
    }
    text += "\n";
  }
  for (const auto& core : statistics.cores) {
    text += "core until " + std::to_string(core.cycles) + "\n";
    for (const auto& row : core.engines) add(row);
    for (const auto& task : core.tasks) {
      text += std::to_string(task.first_step_begin) + ".." + std::to_string(task.end) + " ";
    }
  }
  return text;
}

void check(const Case& of, const std::vector<int>& process_of_card, const GraphPointer& graph) {
  const auto together = run_together(of);
  ASSERT_TRUE(together.ok()) << together.error().to_string();
  const auto apart = run_apart(of, process_of_card);
  ASSERT_TRUE(apart.ok()) << apart.error().to_string();
  ASSERT_EQ(apart->segments.size(), together->segments.size());
  for (std::size_t i = 0; i < together->segments.size(); ++i) {
    EXPECT_EQ(rows_of(apart->segments[i]), rows_of(together->segments[i]));
  }
  if (of.options.timing_only) return;
  const auto expected = run_reference(graph, of.inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  for (std::size_t i = 0; i < expected->size(); ++i) {
    EXPECT_TRUE(apart->outputs[i].bytes == (*expected)[i].bytes) << "output " << i;
  }
}

TEST(CardsApart, CyclesRowsAndBitsAreThoseOfOneProcess) {
  constexpr Split kSplits[] = {Split::kRows, Split::kChannels, Split::kGrid};
  int runs = 0;
  // Of graph 10 cores copy into what cores of other cards fill; of graph 53 what comes over the network is known
  // just before a window ends and unpacked behind it.
  std::vector<std::uint64_t> seeds = {1, 10, 53};
  if (is_whole()) {
    seeds.resize(60);
    std::iota(seeds.begin(), seeds.end(), 1);
  }
  for (const std::uint64_t seed : seeds) {
    for (std::size_t s = 0; s < shapes().size(); ++s) {
      const Shape& shape = shapes()[s];
      const Split split = kSplits[(seed + s) % 3];
      SCOPED_TRACE(::testing::Message() << "graph " << seed << ", " << shape.name << ", split "
                                        << static_cast<int>(split));
      const ChipConfig chip = shaped(shape);
      const auto placement =
          spread_cores(chip, shape.cards, shape.cards * shape.groups * shape.cores_per_group);
      ASSERT_TRUE(placement.ok()) << placement.error().to_string();
      const GraphPointer graph = compile::testing::random_graph(seed);
      const auto program = program_of(graph, chip, *placement, split);
      if (!program.ok()) continue;  // not every graph can be cut in each way
      const std::vector<Tensor> inputs = random_inputs(*graph, seed);
      card::CoreOptions options;
      check({*program, chip, *placement, inputs, options}, shape.process_of_card, graph);
      options.timing_only = true;
      check({*program, chip, *placement, inputs, options}, shape.process_of_card, graph);
      ++runs;
    }
  }
  EXPECT_GE(runs, static_cast<int>(5 * seeds.size()));
}

// A program of four cores on two cards.
struct OnTwoCards {
  const Shape& shape = shapes()[0];
  const ChipConfig chip = shaped(shape);
  const CardPlacement placement = spread_cores(chip, shape.cards, 4).value();
  const GraphPointer graph = compile::testing::random_graph(2);
  const isa::CardProgram program = program_of(graph, chip, placement, Split::kRows).value();
  const std::vector<Tensor> inputs = random_inputs(*graph, 2);
};

// What a process must not send ends the run with an error, or changes what it says and nothing else.
TEST(CardsApart, DamagedBatchesEndInErrorsAndNothingElse) {
  const OnTwoCards on;
  const card::CoreOptions options;
  const Case of{on.program, on.chip, on.placement, on.inputs, options};
  std::uint64_t state = 1;
  int errors = 0;
  const int runs = is_whole() ? 10'000 : 1000;
  for (int run = 0; run < runs; ++run) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const Damage damage{.process = state >> 33 & 1, .window = state >> 34 & 7, .bit = state >> 38};
    SCOPED_TRACE(::testing::Message() << "window " << damage.window << " of process "
                                      << damage.process << ", bit " << damage.bit);
    if (!run_apart(of, on.shape.process_of_card, damage).ok()) ++errors;
  }
  EXPECT_GT(errors, runs / 4);
}

// What another process says of its part of a run is refused, or can be read as that of the program.
TEST(CardsApart, DamagedStatisticsAreRefusedOrReadable) {
  const OnTwoCards on;
  card::CoreOptions options;
  options.trace = true;
  const auto together = run_together({on.program, on.chip, on.placement, on.inputs, options});
  ASSERT_TRUE(together.ok()) << together.error().to_string();
  const CardStatistics& sound = together->segments[0];
  const std::vector<std::byte> bytes = card::encode_statistics(sound);
  std::uint64_t state = 1;
  int refused = 0, read = 0;
  for (int run = 0; run < (is_whole() ? 100'000 : 3000); ++run) {
    std::vector<std::byte> damaged = bytes;
    for (int i = 0; i < 2; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      damaged[(state >> 20) % damaged.size()] ^= std::byte(1 << (state >> 60 & 7));
    }
    const auto statistics = card::parse_statistics(damaged);
    if (!statistics.ok() ||
        !card::check_statistics(*statistics, on.program, 0, sound.shared.size()).ok()) {
      ++refused;
      continue;
    }
    ++read;
    CardStatistics whole = *statistics;
    whole.shared.resize(sound.shared.size());
    RunResult result;
    device::add_hints(on.program.cores[0], result);
    device::add_card_segment(on.program, 0, whole, result);
    std::size_t bars = whole.wires.size();
    for (const card::RunStatistics& core : whole.cores) bars += core.trace.size();
    EXPECT_EQ(result.timeline.size(), bars);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace tessera::agreement
