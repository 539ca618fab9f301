// Actors that keep what they compute in blocks of devices' memory, and use it again at once.
#include <fmt/format.h>

#include <algorithm>

#include "base/guarded.h"
#include "runtime/memory_state.h"
#include "soak_actors.h"

namespace tessera::soak {
namespace {

// Memory of the application's that is overwritten and released when its last owner is gone.
class Lent {
 public:
  explicit Lent(std::span<const std::byte> contents) : bytes_(contents.begin(), contents.end()) {}
  ~Lent() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0xDD}); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  std::span<std::byte> bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class ChainActor {
 public:
  ChainActor(World& world, std::vector<Lane*> lanes, const std::string& device, std::uint64_t seed)
      : world_(world),
        work_(*lanes.front()->work),
        random_(seed),
        memory_(world.open_memory(device)) {
    for (Lane* const lane : lanes) places_.push_back({lane, lane->pipeline.open_stream()});
  }

  void act(const std::atomic<bool>& stop) {
    while (!stop) {
      if (!have_blocks()) continue;
      chain();
      if (once_in(random_, 50)) sleep_some(random_, 3000);
      if (once_in(random_, 30)) blocks_.erase(blocks_.begin());
    }
    for (Place& place : places_) place.stream.wait_until_done();
  }

 private:
  struct Place {
    Lane* lane = nullptr;
    Stream stream;
  };
  struct Link {
    Lane* lane = nullptr;
    Job job;
    std::shared_ptr<TaskRecord> record;
    bool good = false;
  };
  static constexpr std::size_t kBlocks = 3;

  bool have_blocks() {
    while (blocks_.size() < kBlocks) {
      const std::int64_t failed = failed_allocations();
      auto block = guarded("", [&] {
        const Exposed exposed;
        return memory_.allocate(work_.form());
      });
      if (block.ok()) {
        blocks_.push_back(std::move(block).value());
      } else if (failed_allocations() == failed && block.error().code != ErrorCode::kDoesNotFit) {
        world_.ledger().unexplained("a block was refused: " + block.error().to_string());
      }
      if (!block.ok()) {
        sleep_some(random_, 1000);
        return false;
      }
    }
    return true;
  }

  using Input = std::variant<Tensor, TensorView, Block>;
  TensorView view_of(const std::shared_ptr<Lent>& lent) {
    return {work_.form().format, work_.form().dims, lent->bytes(), lent};
  }

  // The first input in one of the ways there are; nothing: no memory.
  std::optional<Input> first_input(const Tensor& tensor) {
    const std::uint64_t way = input_way_ = random_() % 4;
    if (way == 0) return Input(tensor);
    const auto lent = std::make_shared<Lent>(tensor.bytes);
    if (way == 1) return Input(view_of(lent));
    auto block = guarded("", [&] {
      Tensor copy = tensor;
      const Exposed exposed;
      return way == 2 ? memory_.upload(std::move(copy))
                      : memory_.wrap(lent->bytes(), work_.form(), lent);
    });
    if (!block.ok()) return std::nullopt;
    return Input(std::move(block).value());
  }

  bool submit_link(std::vector<Link>& links, Input input, NetworkOutput output, bool reads) {
    Place& place = places_[random_() % places_.size()];
    Link link;
    link.lane = place.lane;
    link.record = world_.ledger().open();
    link.record->reads_blocks = reads;
    SubmitOptions options = some_options(random_, *link.record);
    NetworkTask task;
    task.inputs.push_back(std::move(input));
    task.outputs.push_back(std::move(output));
    auto job = submitted(world_, *place.lane, *link.record, [&] {
      return place.stream.submit_network_when_room(std::move(task), std::move(options));
    });
    if (!job) return false;
    link.job = std::move(*job);
    links.push_back(std::move(link));
    return true;
  }

  void chain() {
    const std::uint64_t which = random_() >> 8U;
    auto input = first_input(work_.input(which));
    if (!input) return;
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    const Block first = blocks_[0], second = blocks_[1];
    const auto lent = std::make_shared<Lent>(work_.input(which).bytes);
    const std::weak_ptr<Lent> lent_still = lent;
    const std::uint64_t way = random_() % 4;
    NetworkOutput last;
    if (way == 1) last.keep = true;
    if (way == 2) last.view = view_of(lent);
    if (way == 3) last.block = blocks_[2];
    last.fetch = way == 3 && once_in(random_, 2);
    std::vector<Link> links;
    const bool all =
        submit_link(links, std::move(*input), {.block = first}, false) &&
        submit_link(links, first, {.block = second, .fetch = once_in(random_, 4)}, true) &&
        submit_link(links, second, std::move(last), true);
    disturb(links);
    std::optional<TaskResult> result;
    for (std::size_t i = 0; i < links.size(); ++i) {
      TaskOutcome outcome = links[i].job.wait();
      links[i].good = outcome.ok();
      bool right = outcome.ok();
      if (right && i == 2) right = last_is_right(outcome.result(), which, way, lent->bytes());
      world_.ledger().ended(*links[i].record, outcome, right,
                            fmt::format("link {} of {} on {}, input {}, output {}", i,
                                        links[i].lane->name, memory_.device(), input_way_, way),
                            links[i].lane->tally);
    }
    if (all && links[1].good && once_in(random_, 3)) check_block(second, which, 2);
    if (links.size() > 0 && links[0].good && once_in(random_, 6)) check_block(first, which, 1);
  }

  // Cancels some, at any moment of their lives.
  void disturb(std::vector<Link>& links) {
    if (links.empty() || !once_in(random_, 3)) return;
    if (once_in(random_, 2)) sleep_some(random_, 3000);
    Link& link = links[random_() % links.size()];
    link.record->cancel_asked = true;
    const Exposed exposed;
    link.job.cancel();
  }

  bool last_is_right(TaskResult& result, std::uint64_t which, std::uint64_t way,
                     std::span<const std::byte> lent) {
    switch (way) {
      case 0:
        return work_.is_after(which, 3, result.outputs()[0].bytes);
      case 2:
        return work_.is_after(which, 3, lent);
      default:
        break;
    }
    if (result.blocks.size() != 1) return false;
    if (!result.blocks[0]) return work_.is_after(which, 3, result.outputs()[0].bytes);
    check_block(*result.blocks[0], which, 3);
    return true;
  }

  // Its task has ended well, and no other uses it.
  void check_block(Block block, std::uint64_t which, int depth) {
    const std::int64_t failed = failed_allocations();
    const Status fetched = guarded("", [&] {
      const Exposed exposed;
      return block.fetch();
    });
    if (!fetched.ok()) {
      if (failed_allocations() == failed) {
        world_.ledger().unexplained("a block cannot be fetched: " + fetched.error().to_string());
      }
      return;
    }
    if (!work_.is_after(which, depth, block.bytes())) {
      world_.ledger().unexplained(
          fmt::format("a block of '{}' holds other bits than its task made", block.device()));
    }
  }

  World& world_;
  const Workload& work_;
  Random random_;
  std::vector<Place> places_;
  Memory memory_;
  std::vector<Block> blocks_;
  std::uint64_t input_way_ = 0;
};

// ---- single layers ----

class LayersActor {
 public:
  LayersActor(World& world, const std::string& device, std::uint64_t seed)
      : world_(world),
        lane_(world.lane("layers")),
        random_(seed),
        stream_(lane_.pipeline.open_stream()),
        memory_(world.open_memory(device)) {}

  void act(const std::atomic<bool>& stop) {
    while (!stop) {
      if (have_all()) all_layers();
      if (once_in(random_, 200)) layers_.reset();  // the last handle unloads them
      if (once_in(random_, 50)) blocks_.clear();
    }
    stream_.wait_until_done();
  }

 private:
  // The layers, and a block for each of their outputs.
  bool have_all() {
    const std::int64_t failed = failed_allocations();
    const Status status = guarded("", [&]() -> Status {
      const Exposed exposed;
      if (!layers_) {
        const Network& network = lane_.work->network();
        TESSERA_TRY(auto loaded, runtime::LayersState::load(memory_.state(), network));
        layers_.emplace(std::move(loaded));
      }
      while (blocks_.size() < layers_->list().size()) {
        const Layer& layer = layers_->list()[blocks_.size()];
        TESSERA_TRY(Block block, memory_.allocate(layer.outputs[0]));
        blocks_.push_back(std::move(block));
      }
      return {};
    });
    if (!status.ok() && failed_allocations() == failed) {
      world_.ledger().unexplained("layers were not loaded: " + status.error().to_string());
    }
    return status.ok();
  }

  void all_layers() {
    const std::uint64_t which = random_() >> 8U;
    auto input = guarded("", [&] {
      Tensor tensor = lane_.work->input(which);
      const Exposed exposed;
      return memory_.upload(std::move(tensor));
    });
    if (!input.ok()) return;
    std::vector<Job> jobs;
    std::vector<std::shared_ptr<TaskRecord>> records;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const LayerTask task = {
          .layer = i, .inputs = {i == 0 ? *input : blocks_[i - 1]}, .outputs = {blocks_[i]}};
      auto record = world_.ledger().open();
      record->reads_blocks = i > 0;
      const SubmitOptions options = some_options(random_, *record);
      stream_.wait_for_room();
      auto job = submitted(world_, lane_, *record,
                           [&] { return stream_.submit_layer(*layers_, task, options); });
      if (!job) break;
      jobs.push_back(std::move(*job));
      records.push_back(std::move(record));
    }
    if (!jobs.empty() && once_in(random_, 4)) {
      const std::size_t index = random_() % jobs.size();
      records[index]->cancel_asked = true;
      const Exposed exposed;
      jobs[index].cancel();
    }
    bool good = jobs.size() == blocks_.size();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const TaskOutcome outcome = jobs[i].wait();
      world_.ledger().ended(*records[i], outcome, true, lane_.name, lane_.tally);
      good = good && outcome.ok();
    }
    if (good) check_last(which);
  }

  void check_last(std::uint64_t which) {
    const std::int64_t failed = failed_allocations();
    const Status fetched = guarded("", [&] {
      const Exposed exposed;
      return blocks_.back().fetch();
    });
    if (!fetched.ok() && failed_allocations() > failed) return;
    if (!fetched.ok() || !lane_.work->is_after(which, 1, blocks_.back().bytes())) {
      world_.ledger().unexplained("the last layer's block holds other bits than the network makes");
    }
  }

  World& world_;
  Lane& lane_;
  Random random_;
  Stream stream_;
  Memory memory_;
  std::optional<Layers> layers_;
  std::vector<Block> blocks_;
};

// ---- states ----

class StateActor {
 public:
  StateActor(World& world, const std::string& device, std::uint64_t seed)
      : world_(world),
        lane_(world.lane("states")),
        random_(seed),
        stream_(lane_.pipeline.open_stream()),
        memory_(world.open_memory(device)) {}

  void act(const std::atomic<bool>& stop) {
    while (!stop) {
      if (!bind()) continue;
      some_steps(1 + random_() % 24);
    }
    stream_.wait_until_done();
  }

 private:
  struct Step {
    Job job;
    std::shared_ptr<TaskRecord> record;
    std::uint64_t expected = 0;
  };

  bool bind() {
    state_ = random_();
    const std::vector<StateBinding> bindings = {
        {.output = 1, .input = 1, .initial = scripted::tensor_of(state_)}};
    const std::int64_t failed = failed_allocations();
    const Status bound = guarded("", [&] {
      const Exposed exposed;
      return stream_.bind_states(memory_, bindings);
    });
    if (!bound.ok() && failed_allocations() == failed &&
        bound.error().code != ErrorCode::kDoesNotFit) {
      world_.ledger().unexplained("states were not bound: " + bound.error().to_string());
    }
    if (!bound.ok()) sleep_some(random_, 1000);
    return bound.ok();
  }

  void some_steps(std::uint64_t count) {
    std::vector<Step> steps;
    for (std::uint64_t i = 0; i < count; ++i) {
      Step step;
      step.record = world_.ledger().open();
      step.record->reads_blocks = true;
      SubmitOptions options;
      if (once_in(random_, 60)) options = some_options(random_, *step.record);
      const std::uint64_t input = random_();
      const Stateful next = stateful_of(input, state_);
      NetworkTask task;
      task.inputs.emplace_back(scripted::tensor_of(input));
      auto job = submitted(world_, lane_, *step.record, [&] {
        return stream_.submit_network_when_room(std::move(task), std::move(options));
      });
      if (!job) break;
      state_ = next.state;
      step.expected = next.result;
      step.job = std::move(*job);
      steps.push_back(std::move(step));
    }
    if (!steps.empty() && once_in(random_, 4)) {
      Step& step = steps[random_() % steps.size()];
      step.record->cancel_asked = true;
      const Exposed exposed;
      step.job.cancel();
    }
    for (Step& step : steps) {
      const TaskOutcome outcome = step.job.wait();
      const bool right = outcome.ok() && outcome.result().outputs().size() == 2 &&
                         scripted::value_of(outcome.result().outputs()[0]) == step.expected;
      world_.ledger().ended(*step.record, outcome, right, "states on " + memory_.device(),
                            lane_.tally);
    }
  }

  World& world_;
  Lane& lane_;
  Random random_;
  Stream stream_;
  Memory memory_;
  std::uint64_t state_ = 0;
};

}  // namespace

Actor chain_actor(World& world, std::vector<Lane*> lanes, std::string device) {
  return {"chain on " + device,
          [&world, lanes, device](const std::atomic<bool>& stop, std::uint64_t seed) {
            ChainActor(world, lanes, device, seed).act(stop);
          }};
}

Actor layers_actor(World& world, std::string device) {
  return {"layers on " + device,
          [&world, device](const std::atomic<bool>& stop, std::uint64_t seed) {
            LayersActor(world, device, seed).act(stop);
          }};
}

Actor state_actor(World& world, std::string device) {
  return {"states on " + device,
          [&world, device](const std::atomic<bool>& stop, std::uint64_t seed) {
            StateActor(world, device, seed).act(stop);
          }};
}

}  // namespace tessera::soak
