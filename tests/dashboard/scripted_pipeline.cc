#include "scripted_pipeline.h"

#include <algorithm>
#include <chrono>
#include <memory>

namespace tessera::dashboard {
namespace {

using metrics::Event;
using metrics::EventKind;
using metrics::SourceKind;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::size_t kQueueCapacity = 16;
constexpr std::uint64_t kBatch = 8;
constexpr std::int64_t kKernelNs = 5 * kMs, kWriteNs = 4 * kMs / 10, kReadNs = 3 * kMs / 10;
constexpr std::int64_t kWeightsNs = 40 * kMs, kWeightBytes = 13'900'000;
constexpr std::int64_t kInputBytes = 150'528, kOutputBytes = 4000;

}  // namespace

ScriptedPipeline::ScriptedPipeline(metrics::Recorder& recorder) : recorder_(recorder) {}

Result<std::unique_ptr<ScriptedPipeline>> ScriptedPipeline::start(metrics::Recorder& recorder) {
  std::unique_ptr<ScriptedPipeline> pipeline(new ScriptedPipeline(recorder));
  TESSERA_RETURN_IF_ERROR(pipeline->add_sources());
  pipeline->reached_ = recorder.now();
  pipeline->thread_ = std::thread([raw = pipeline.get()] { raw->run(); });
  return pipeline;
}

ScriptedPipeline::~ScriptedPipeline() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status ScriptedPipeline::add_sources() {
  constexpr std::array kWork = {6 * kMs, kMs};
  constexpr std::array kNames = {"pre", "post"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    TESSERA_TRY(const metrics::SourceId source,
                recorder_.add_source({.kind = SourceKind::kStage, .name = kNames[i]}));
    stages_.push_back({kNames[i], source, kWork[i], {0}});
  }
  TESSERA_TRY(device_, recorder_.add_source(
                           {.kind = SourceKind::kDevice, .name = "sim0", .device = "sim0"}));
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    TESSERA_TRY(kernels_[i].source, recorder_.add_source({.kind = SourceKind::kKernel,
                                                          .name = i == 0 ? "kernel A" : "kernel B",
                                                          .device = "sim0"}));
  }
  TESSERA_TRY(queue_, recorder_.add_source({.kind = SourceKind::kQueue,
                                            .name = "execute queue",
                                            .capacity = kQueueCapacity}));
  TESSERA_TRY(tasks_, recorder_.add_source({.kind = SourceKind::kTasks, .name = "tasks"}));
  return {};
}

void ScriptedPipeline::run() {
  std::unique_lock lock(mutex_);
  emit({.kind = EventKind::kTransferIn,
        .source = device_,
        .begin_ns = reached_,
        .end_ns = reached_ + kWeightsNs,
        .value = kWeightBytes});
  reached_ += kWeightsNs;
  while (!stop_.wait_for(lock, std::chrono::milliseconds(10), [this] { return stopping_; })) {
    const std::int64_t now = recorder_.now();
    while (reached_ < now) next_packet();
    record_until(now);
  }
}

std::int64_t ScriptedPipeline::pass_stage(StageState& stage, std::int64_t ready) {
  const auto thread = std::min_element(stage.free_from.begin(), stage.free_from.end());
  const std::int64_t begin = std::max(ready, *thread);
  std::uniform_int_distribution<std::int64_t> jitter(-stage.work_ns / 10, stage.work_ns / 10);
  *thread = begin + stage.work_ns + jitter(random_);
  emit({.kind = EventKind::kStageRun,
        .source = stage.source,
        .stream = static_cast<std::uint32_t>(packet_ % 2),
        .begin_ns = begin,
        .end_ns = *thread,
        .packet = packet_,
        .value = begin - ready});
  return *thread;
}

void ScriptedPipeline::pass_kernel(std::int64_t ready, std::int64_t& begin, std::int64_t& end) {
  KernelState& kernel = kernels_[packet_ / kBatch % kernels_.size()];
  Event event = {.kind = EventKind::kTransferIn,
                 .source = kernel.source,
                 .begin_ns = ready,
                 .end_ns = ready + kWriteNs,
                 .packet = packet_,
                 .value = kInputBytes};
  emit(event);
  begin = std::max(event.end_ns, kernel.free_from);
  end = begin + kKernelNs;
  kernel.free_from = end + 50'000;
  event.kind = EventKind::kKernelRun;
  event.begin_ns = begin;
  event.end_ns = end;
  event.value = 7'000'000;
  emit(event);
  event.kind = EventKind::kTransferOut;
  event.begin_ns = end;
  event.end_ns = end + kReadNs;
  event.value = kOutputBytes;
  emit(event);
  end += kReadNs;
}

// The next packet's whole way, in time that may not have come yet.
void ScriptedPipeline::next_packet() {
  StageState& pre = stages_[0];
  std::int64_t entered =
      std::max(reached_, *std::min_element(pre.free_from.begin(), pre.free_from.end()));
  if (kernel_begins_.size() == kQueueCapacity) {
    entered = std::max(entered, kernel_begins_[packet_ % kQueueCapacity]);
  }
  reached_ = entered;
  emit({.kind = EventKind::kTaskSubmitted,
        .source = tasks_,
        .begin_ns = entered,
        .end_ns = entered,
        .packet = packet_});
  const std::int64_t prepared = pass_stage(pre, entered);
  std::int64_t begin = 0, end = 0;
  pass_kernel(prepared, begin, end);
  kernel_begins_.resize(std::max<std::size_t>(kernel_begins_.size(),
                                              std::min<std::size_t>(packet_ + 1, kQueueCapacity)));
  kernel_begins_[packet_ % kQueueCapacity] = begin;
  const auto depth = std::count_if(kernel_begins_.begin(), kernel_begins_.end(),
                                   [&](std::int64_t other) { return other > prepared; });
  emit({.kind = EventKind::kQueueDepth,
        .source = queue_,
        .begin_ns = prepared,
        .end_ns = prepared,
        .packet = packet_,
        .value = depth});
  const std::int64_t done = pass_stage(stages_[1], end);
  emit({.kind = EventKind::kTaskCompleted,
        .source = tasks_,
        .begin_ns = entered,
        .end_ns = done,
        .packet = packet_});
  ++packet_;
}

// Events that are over by now go to the recorder, in the order of their ends.
void ScriptedPipeline::record_until(std::int64_t now) {
  const auto later = std::stable_partition(waiting_.begin(), waiting_.end(),
                                           [&](const Event& event) { return event.end_ns <= now; });
  std::stable_sort(waiting_.begin(), later,
                   [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; });
  std::for_each(waiting_.begin(), later, [this](const Event& event) { recorder_.record(event); });
  waiting_.erase(waiting_.begin(), later);
}

std::vector<StageControl> ScriptedPipeline::stages() {
  const std::lock_guard lock(mutex_);
  std::vector<StageControl> controls;
  for (const StageState& stage : stages_) {
    controls.push_back({stage.name, static_cast<int>(stage.free_from.size()), kThreadsMax});
  }
  return controls;
}

Status ScriptedPipeline::set_threads(const std::string& stage, int threads) {
  const std::lock_guard lock(mutex_);
  for (StageState& state : stages_) {
    if (state.name != stage) continue;
    if (threads < 1 || threads > kThreadsMax) {
      return Error{ErrorCode::kInvalidArgument,
                   "stage '" + stage + "': " + std::to_string(threads) + " threads; allowed 1 to " +
                       std::to_string(kThreadsMax)};
    }
    state.free_from.resize(static_cast<std::size_t>(threads), recorder_.now());
    recorder_.set_threads(state.source, threads);
    return {};
  }
  return Error{ErrorCode::kInvalidArgument, "there is no stage '" + stage + "'; allowed pre, post"};
}

namespace {

// Each time that it is asked, 1,000 cycles have passed, in which cores, channels, links and ports were busy for as
// many of them as they have to say.
void add_parts(CardStatus& card, std::int64_t times) {
  const auto add = [&](const char* kind, int index, int of_card, std::int64_t busy) {
    card.parts.push_back({kind, index, of_card, times * busy, times * busy * 96});
  };
  for (int core = 0; core < 16; ++core) add("core", core, core / 8, 50 * core);
  for (int group = 0; group < 4; ++group) add("dram", group, group / 2, 100 + group);
  for (int group = 0; group < 4; ++group) add("broadcast", group, group / 2, 200 + group);
  for (int group = 0; group < 4; ++group) add("ring", group, group / 2, 300 + group);
  for (int of_card = 0; of_card < 2; ++of_card) {
    add("network_out", of_card, of_card, 400 + of_card);
    add("network_in", of_card, of_card, 500 + of_card);
  }
  card.cycles = 1000 * times;
}

}  // namespace

// Two cards with two tenants; the second is being linked for a core more.
std::vector<CardStatus> ScriptedPipeline::cards() {
  CardStatus card;
  card.arch = "cloud16";
  card.clock_hertz = 200'000'000;
  card.cards = 2;
  card.groups = 4;
  card.cores_per_group = 4;
  card.processors.resize(2);
  ProcessorStatus& first = card.processors[0];
  first.name = "first";
  first.cores = {0, 1, 2, 3};
  first.networks = {"resnet50.onnx"};
  first.runs = 12;
  first.last_run_cycles = 1'000'000;
  ProcessorStatus& second = card.processors[1];
  second.name = "second";
  second.cores = {4, 5};
  second.reserved = {6};
  const std::lock_guard lock(mutex_);
  add_parts(card, ++asked_for_cards_);
  return {card};
}

std::vector<Choice> ScriptedPipeline::choices() {
  const std::lock_guard lock(mutex_);
  return {{"tune", tune_, {"off", "auto"}}};
}

Status ScriptedPipeline::choose(const std::string& name, const std::string& position) {
  const std::lock_guard lock(mutex_);
  if (name != "tune" || (position != "off" && position != "auto")) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + name + "' cannot be '" + position + "'; allowed tune: off, auto"};
  }
  tune_ = position;
  return {};
}

}  // namespace tessera::dashboard
