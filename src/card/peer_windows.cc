#include "card/peer_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <variant>

#include "isa/dma_work.h"

namespace tessera::card {
namespace {

using engines::CardMessage;
using engines::News;
using Departure = engines::NetworkStations::Departure;

Error wrong(int process, const std::string& what) {
  return {ErrorCode::kInvalidModel, fmt::format("what process {} sent: {}", process, what)};
}

bool holds_bytes(const CardMessage& message) {
  return message.kind == CardMessage::Kind::kData ||
         (message.kind == CardMessage::Kind::kRequest && message.request.dram.write);
}

// The runs of a request.
template <typename Visit>
void for_each_run(const DramRequest& request, const Visit& visit) {
  RunWalk walk(request);
  for (std::int64_t run = 0; run < request.runs; ++run) {
    if (run > 0) walk.next();
    visit(ByteRun{walk.address(), request.bytes});
  }
}

// Whether the request is a part of its grid, and that a part of the memory.
bool is_sound(const DramRequest& request, const StridedRuns& grid, std::int64_t memory_bytes) {
  if (grid.axes < 0 || grid.axes > kRunAxesMax || grid.run_bytes < 1) return false;
  std::int64_t first = grid.address, last = grid.address + grid.run_bytes, runs = 1;
  if (grid.address < 0 || grid.address > memory_bytes || grid.run_bytes > memory_bytes)
    return false;
  for (int axis = 0; axis < grid.axes; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t extent = grid.extents[a], stride = grid.strides[a];
    if (extent < 1 || extent > memory_bytes || runs > memory_bytes / extent) return false;
    if (stride < -memory_bytes || stride > memory_bytes) return false;
    if (extent > 1 && (extent - 1) > memory_bytes / std::max<std::int64_t>(1, std::abs(stride))) {
      return false;
    }
    runs *= extent;
    const std::int64_t reach = (extent - 1) * stride;
    (reach < 0 ? first : last) += reach;
    if (first < 0 || last > memory_bytes) return false;
  }
  return first >= 0 && last <= memory_bytes && request.first_run >= 0 && request.runs >= 1 &&
         request.first_run < runs && request.runs <= runs - request.first_run &&
         request.skip >= 0 && request.bytes >= 1 && request.skip <= grid.run_bytes &&
         request.bytes <= grid.run_bytes - request.skip;
}

// What a Move fills lies below what it copies, also where other cores copy.
bool is_fill(const isa::TaskDescriptor& task) {
  const auto* const copy = std::get_if<isa::CopyTask>(&task.config);
  return copy != nullptr && copy->fill;
}

// Without the bytes of `others`, which are in the order of their addresses.
void append_without(ByteRun run, std::span<const ByteRun> others, std::vector<ByteRun>& result) {
  const auto reaches = [](const ByteRun& other, std::int64_t address) {
    return other.address + other.bytes <= address;
  };
  const std::int64_t end = run.address + run.bytes;
  for (auto other = std::lower_bound(others.begin(), others.end(), run.address, reaches);
       other != others.end() && other->address < end; ++other) {
    if (other->address > run.address) result.push_back({run.address, other->address - run.address});
    run.address = std::max(run.address, other->address + other->bytes);
  }
  if (run.address < end) result.push_back({run.address, end - run.address});
}

// That a window can end behind: the memories count it in cycles of their own clock.
constexpr Cycles kTimeMost = Cycles{1} << 48;
bool is_among(int core, engines::CoreSet cores) {
  return core >= 0 && core < engines::kCoresMax && (cores >> core & 1) != 0;
}
bool is_time(Cycles time) { return time == kNever || time <= kTimeMost; }

}  // namespace

PeerWindows::PeerWindows(const Parts& parts)
    : parts_(parts), card_of_core_(parts.memories->card_of_core()) {
  std::uint32_t cards = 0;
  for (int card = 0; card < parts.placement->cards; ++card) {
    if (is_here(card)) cards |= std::uint32_t{1} << card;
  }
  parts_.memories->network()->split(cards);
  for (const int core : parts.placement->core) placed_cores_ |= engines::CoreSet{1} << core;
  outstanding_ = parts.memories->outstanding();
}

Cycles PeerWindows::lookahead() const { return parts_.memories->network()->lookahead(); }

void PeerWindows::begin(const ProgramCores::Placed& placed, std::size_t segment, bool has_values) {
  placed_ = &placed;
  segment_ = segment;
  has_values_ = has_values;
  is_deadlock_ = false;
  window_ = 0;
  begin_ = last_ = 0;
  end_ = lookahead();
  asked_.clear();
  grids_.clear();
  asked_here_.clear();
  results_.clear();
  std::vector<bool> here;
  for (std::size_t core = 0; core < card_of_core_.size(); ++core) {
    here.push_back(process_of_core(core) == parts_.here->process);
  }
  parts_.program->news().split(std::move(here));
}

// ---- what goes out ----

PeerFrame PeerWindows::frame_of(const Departure& departure, int process) {
  PeerFrame frame;
  frame.departure = departure;
  frame.is_whole = process_of(departure.to_card) == process;
  if (!frame.is_whole) return frame;
  const auto append = [&](const ByteRun& run) {
    const std::byte* const bytes =
        parts_.dram->at_modelled(placed_->networks[0], run.address, run.bytes);
    if (bytes == nullptr) return;  // weights, which everybody has
    frame.data.insert(frame.data.end(), bytes, bytes + run.bytes);
  };
  if (departure.is_result) {
    for (const News& one : parts_.program->news().held(departure.number)) {
      if (process_of_core(one.to) == process) frame.held.push_back(one);
    }
    if (!has_values_) return frame;
    frame.runs = runs_of_result(departure.number);
    for (const ByteRun& run : frame.runs) append(run);
    return frame;
  }
  if (has_values_ && holds_bytes(departure.message)) {
    DramRequest request = departure.message.request.dram;
    request.grid = &departure.grid;
    for_each_run(request, append);
  }
  return frame;
}

std::vector<PeerBatch> PeerWindows::collect(const Reached& reached) {
  auto& network = *parts_.memories->network();
  PeerBatch all{
      .window = window_, .next = reached.next, .last = reached.last, .is_done = reached.is_done};
  const std::vector<News> news = parts_.program->news().take_departed();
  for (const News& one : news) all.first_news = std::min(all.first_news, one.at);
  const std::vector<Departure> departures = network.take_departures();
  std::vector<PeerBatch> batches(static_cast<std::size_t>(parts_.here->processes()), all);
  for (int process = 0; process < parts_.here->processes(); ++process) {
    if (process == parts_.here->process) continue;
    PeerBatch& batch = batches[static_cast<std::size_t>(process)];
    for (const Departure& one : departures) batch.frames.push_back(frame_of(one, process));
    for (const News& one : news) {
      if (process_of_core(one.to) == process) batch.news.push_back(one);
    }
  }
  for (const Departure& one : departures) {
    if (one.is_result) continue;
    for (std::size_t group = 0; group < engines::kGroupsMax; ++group) {
      const Key key{static_cast<int>(group), one.message.tickets[group]};
      if (one.message.kind == CardMessage::Kind::kRequest) {
        if (one.message.from == static_cast<int>(group)) asked_.insert(key);
      } else if ((one.message.to >> group & 1) != 0) {
        asked_here_.erase(key);
      }
    }
  }
  return batches;
}

template <typename Visit>
void PeerWindows::for_each_written(const isa::TaskDescriptor& task, const Visit& visit) const {
  const isa::DramPlaces places = parts_.dram->places(placed_->networks[0]);
  isa::DmaStep plan;
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    isa::plan_dma_step(task, step, places, *parts_.chip, plan);
    for (std::int64_t piece = 0; plan.writes && piece < plan.pieces; ++piece) {
      for_each_run(isa::dma_request(plan, piece, true), visit);
    }
  }
}

// What cores of other cards copy of the result's layer, in the order of addresses.
std::vector<ByteRun> PeerWindows::copied_elsewhere(std::uint32_t number) const {
  const isa::WholeResults& whole = parts_.program->news().whole();
  const isa::WholeResults::Result& of = whole.results()[number];
  std::vector<ByteRun> runs;
  for (std::size_t core = 0; core < placed_->program->cores.size(); ++core) {
    if (whole.card_of(core) == of.card) continue;
    const isa::Program& program = placed_->program->cores[core];
    const isa::Segment& segment = program.segments[segment_];
    for (isa::TaskId id = segment.task_first; id < segment.task_last; ++id) {
      const isa::TaskDescriptor& task = program.tasks[id];
      if (task.layer != of.layer || whole.of(core, id) == isa::WholeResults::kNone || is_fill(task))
        continue;
      for_each_written(task, [&](const ByteRun& run) { runs.push_back(run); });
    }
  }
  std::ranges::sort(runs, {}, &ByteRun::address);
  std::vector<ByteRun> joined;
  for (const ByteRun& run : runs) {
    if (joined.empty() || joined.back().address + joined.back().bytes < run.address) {
      joined.push_back(run);
      continue;
    }
    ByteRun& last = joined.back();
    last.bytes = std::max(last.address + last.bytes, run.address + run.bytes) - last.address;
  }
  return joined;
}

// Of a result that is made here: what its tasks have written, and nobody elsewhere after them.
std::vector<ByteRun> PeerWindows::runs_of_result(std::uint32_t number) const {
  std::vector<ByteRun> runs;
  const isa::WholeResults& whole = parts_.program->news().whole();
  std::optional<std::vector<ByteRun>> elsewhere;
  for (std::size_t core = 0; core < placed_->program->cores.size(); ++core) {
    const isa::Program& program = placed_->program->cores[core];
    const isa::Segment& segment = program.segments[segment_];
    for (isa::TaskId id = segment.task_first; id < segment.task_last; ++id) {
      if (whole.of(core, id) != number) continue;
      const isa::TaskDescriptor& task = program.tasks[id];
      if (!is_fill(task)) {
        for_each_written(task, [&](const ByteRun& run) { runs.push_back(run); });
        continue;
      }
      if (!elsewhere.has_value()) elsewhere = copied_elsewhere(number);
      for_each_written(task, [&](const ByteRun& run) { append_without(run, *elsewhere, runs); });
    }
  }
  return runs;
}

// ---- what comes in ----

Status PeerWindows::put_data(const PeerFrame& frame) {
  std::size_t at = 0;
  bool fits = true;
  const auto put = [&](const ByteRun& run) {
    std::byte* const to = parts_.dram->at_modelled(placed_->networks[0], run.address, run.bytes);
    if (to == nullptr) return;
    const auto bytes = static_cast<std::size_t>(run.bytes);
    fits = fits && bytes <= frame.data.size() - at;
    if (!fits) return;
    std::memcpy(to, frame.data.data() + at, bytes);
    at += bytes;
  };
  if (frame.departure.is_result) {
    for (const ByteRun& run : frame.runs) put(run);
  } else if (holds_bytes(frame.departure.message)) {
    for_each_run(frame.departure.message.request.dram, put);
  }
  if (fits && at == frame.data.size()) return {};
  return Error{ErrorCode::kInvalidModel, "a frame whose data have another size"};
}

Status PeerWindows::check_news(int process, const News& one) const {
  const auto& cores = placed_->program->cores;
  const auto is_of_segment = [&] {
    const isa::Segment& segment = cores[one.from].segments[segment_];
    return one.task >= segment.task_first && one.task < segment.task_last;
  };
  if (one.to < cores.size() && one.from < cores.size() && is_of_segment() &&
      process_of_core(one.to) == parts_.here->process && process_of_core(one.from) == process) {
    return {};
  }
  return wrong(process, "news of a core or task that there is not");
}

Status PeerWindows::check_request(const CardMessage& message, const PeerFrame& frame) const {
  const auto refuse = [](const std::string& what) {
    return Error{ErrorCode::kInvalidModel, "a request " + what};
  };
  const auto& request = message.request;
  const int cores_of_group = parts_.chip->card.cores_per_group;
  const auto own = ((engines::CoreSet{1} << (cores_of_group - 1)) * 2 - 1)
                   << (message.from * cores_of_group);
  const bool placed =
      (message.cores & ~placed_cores_) == 0 && (request.share.members & ~placed_cores_) == 0;
  if (message.cores == 0 || (message.cores & ~own) != 0 || !placed) {
    return refuse("of cores that are not the program's");
  }
  if (!is_among(request.core, message.cores)) return refuse("of another core than asks");
  if (request.share.number != 0 && (request.share.members & own) == 0) {
    return refuse("with a share in which its group takes no part");
  }
  if (message.to != engines::GroupSet{1} << request.home)
    return refuse("to another group than its home");
  if (!is_sound(request.dram, frame.departure.grid, parts_.chip->dram.bytes)) {
    return refuse("for bytes that no memory has");
  }
  const std::int64_t bytes = request.dram.write ? request.bytes() : 0;
  if (message.bytes != bytes || (request.dram.write && request.share.number != 0)) {
    return refuse("of another size than it says");
  }
  const Key key{message.from, message.tickets[static_cast<std::size_t>(message.from)]};
  if (key.second >= outstanding_ || asked_here_.contains(key))
    return refuse("whose number is taken");
  if (asked_here_.size() >= outstanding_) return refuse("more than can be on their way");
  return {};
}

Status PeerWindows::check_answer(const CardMessage& message) {
  for (engines::GroupSet rest = message.to; rest != 0; rest &= rest - 1) {
    const int group = std::countr_zero(rest);
    const auto asked = asked_.find({group, message.tickets[static_cast<std::size_t>(group)]});
    if (asked == asked_.end()) {
      return Error{ErrorCode::kInvalidModel, "an answer to what nobody has asked"};
    }
    asked_.erase(asked);
  }
  if (!is_among(message.request.core, placed_cores_)) {
    return Error{ErrorCode::kInvalidModel, "an answer to a core that is not the program's"};
  }
  const bool has_bytes = message.kind == CardMessage::Kind::kData;
  if (message.bytes == (has_bytes ? message.request.bytes() : 0)) return {};
  return Error{ErrorCode::kInvalidModel, "an answer of another size than it says"};
}

Status PeerWindows::take_result(PeerFrame& frame) {
  if (!parts_.memories->exchanges_results() ||
      frame.departure.number >= parts_.program->news().whole().results().size()) {
    return Error{ErrorCode::kInvalidModel, "a result that the program has not"};
  }
  const Departure& departure = frame.departure;
  const isa::WholeResults::Result& result =
      parts_.program->news().whole().results()[departure.number];
  const bool is_sent =
      result.card == departure.from_card && (result.to >> departure.to_card & 1) != 0;
  if (!is_sent || !results_.emplace(departure.number, departure.to_card).second) {
    return Error{ErrorCode::kInvalidModel, "a result that is another card's, or was there before"};
  }
  if (!frame.is_whole) return {};
  for (const News& one : frame.held) {
    TESSERA_RETURN_IF_ERROR(check_news(process_of(frame.departure.from_card), one));
    parts_.program->news().hold(frame.departure.number, one);
  }
  for (const ByteRun& run : frame.runs) {
    if (run.bytes < 0) return Error{ErrorCode::kInvalidModel, "a run of fewer than 0 bytes"};
  }
  return put_data(frame);
}

Status PeerWindows::take_frame(int process, PeerFrame& frame) {
  Departure& departure = frame.departure;
  const int cards = parts_.placement->cards, groups = parts_.chip->card.groups;
  const auto is_card = [cards](int card) { return card >= 0 && card < cards; };
  const auto refuse = [](const char* what) { return Error{ErrorCode::kInvalidModel, what}; };
  if (!is_card(departure.from_card) || !is_card(departure.to_card) ||
      departure.from_card == departure.to_card || process_of(departure.from_card) != process) {
    return refuse("a message between cards that are not there");
  }
  if (departure.at < begin_ || departure.at >= end_) return refuse("a message of another time");
  if (departure.message.bytes < 0 || departure.message.bytes > parts_.chip->dram.bytes) {
    return refuse("a message of more bytes than a memory has");
  }
  if (frame.is_whole != is_here(departure.to_card)) return refuse("a message for another process");
  auto& network = *parts_.memories->network();
  if (!network.can_arrive(departure)) return refuse("more messages than a card has on their way");
  if (departure.is_result) {
    TESSERA_RETURN_IF_ERROR(take_result(frame));
    network.arrive(departure);
    return {};
  }
  CardMessage& message = departure.message;
  if (!frame.is_whole) {
    message.to = engines::GroupSet{1} << (departure.to_card * groups);
    network.arrive(departure);
    return {};
  }
  const auto of_card = ((engines::GroupSet{1} << groups) - 1) << (departure.to_card * groups);
  const bool is_from = message.from / groups == departure.from_card && message.from >= 0;
  if (message.to == 0 || (message.to & ~of_card) != 0 || !is_from || !network.has_room()) {
    return refuse("a message between groups that are not there, or one too many");
  }
  if (message.kind == CardMessage::Kind::kRequest) {
    TESSERA_RETURN_IF_ERROR(check_request(message, frame));
    const Key key{message.from, message.tickets[static_cast<std::size_t>(message.from)]};
    asked_here_.insert(key);
    message.request.dram.grid = &(grids_[key] = frame.departure.grid);
  } else {
    TESSERA_RETURN_IF_ERROR(check_answer(message));
    message.request.dram.grid = &frame.departure.grid;
    if (has_values_ && message.kind == CardMessage::Kind::kData &&
        !is_sound(message.request.dram, frame.departure.grid, parts_.chip->dram.bytes)) {
      return refuse("an answer with bytes that no memory has");
    }
  }
  if (has_values_) TESSERA_RETURN_IF_ERROR(put_data(frame));
  if (message.kind != CardMessage::Kind::kRequest) {  // for whom it is, the trace names
    engines::CardRequest request;
    request.core = message.request.core;
    request.dram.task = message.request.dram.task;
    request.dram.write = message.kind == CardMessage::Kind::kDone;
    message.request = request;
  }
  network.arrive(departure);
  return {};
}

Status PeerWindows::take_in(int process, PeerBatch& batch) {
  if (batch.window != window_) {
    return wrong(process, fmt::format("window {}, here it is {}", batch.window, window_));
  }
  if (batch.next < end_ || batch.first_news < end_)
    return wrong(process, "it is behind its window");
  if (!is_time(batch.next) || !is_time(batch.first_news) || batch.last > kTimeMost)
    return wrong(process, "it goes on after more cycles than can be counted");
  for (PeerFrame& frame : batch.frames) {
    if (const Status taken = take_frame(process, frame); !taken.ok()) {
      return wrong(process, taken.error().message);
    }
  }
  for (const News& one : batch.news) {
    TESSERA_RETURN_IF_ERROR(check_news(process, one));
    if (one.at < batch.first_news || one.at > kTimeMost) {
      return wrong(process, "news of another time");
    }
    parts_.program->news().arrive(one);
  }
  return {};
}

Result<Cycles> PeerWindows::exchange(const Reached& reached,
                                     const std::optional<PeerFailure>& failed) {
  std::vector<PeerBatch> own = collect(reached);
  const auto here = static_cast<std::size_t>(parts_.here->process);
  CardPeers::Batches sent(own.size());
  for (std::size_t process = 0; process < own.size(); ++process) {
    own[process].failure = failed;
    if (process != here) sent[process] = encode_batch(own[process]);
  }
  TESSERA_TRY(const CardPeers::Batches came, parts_.here->peers->exchange(std::move(sent)));
  std::vector<PeerBatch> all(own.size());
  std::optional<PeerFailure> first;
  for (std::size_t process = 0; process < all.size(); ++process) {
    if (process == here) {
      all[process] = std::move(own[process]);
    } else {
      TESSERA_TRY(all[process], parse_batch(came[process]));
    }
    const auto& failure = all[process].failure;
    if (failure.has_value() && (!first.has_value() || failure->at < first->at)) first = failure;
  }
  if (first.has_value()) return first->error;
  Cycles next = kNever;
  bool is_done = true;
  for (std::size_t process = 0; process < all.size(); ++process) {
    PeerBatch& batch = all[process];
    if (process != here) TESSERA_RETURN_IF_ERROR(take_in(static_cast<int>(process), batch));
    next = std::min({next, batch.next, batch.first_news});
    last_ = std::max(last_, batch.last);
    is_done = is_done && batch.is_done;
  }
  auto& network = *parts_.memories->network();
  next = std::min(next, network.settle(end_));
  if (parts_.memories->exchanges_results()) {
    for (const auto& arrival : parts_.memories->take_results())
      parts_.program->news().arrives(arrival.number, arrival.to, arrival.at);
  }
  if (is_done) return kNever;
  is_deadlock_ = next == kNever;
  if (is_deadlock_) return kNever;
  ++window_;
  begin_ = end_;
  end_ = std::max(end_, next) + lookahead();
  return end_;
}

// ---- who has a tensor's bytes ----

std::vector<std::vector<ByteRun>> last_writers(const isa::CardProgram& program, std::size_t segment,
                                               const std::vector<int>& process_of_core,
                                               const isa::DramPlaces& places,
                                               const ChipConfig& chip,
                                               std::span<const ByteRun> ranges) {
  constexpr std::uint8_t kNobody = 0xFF;
  std::vector<std::vector<std::uint8_t>> owners;
  for (const ByteRun& range : ranges) {
    owners.emplace_back(static_cast<std::size_t>(range.bytes), kNobody);
  }
  const auto mark = [&](const ByteRun& run, std::uint8_t process) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const std::int64_t first = std::max(run.address, ranges[i].address);
      const std::int64_t last =
          std::min(run.address + run.bytes, ranges[i].address + ranges[i].bytes);
      if (first >= last) continue;
      const auto begin = owners[i].begin() + (first - ranges[i].address);
      std::fill(begin, begin + (last - first), process);
    }
  };
  // An address that several tensors have one after the other is the last layer's; of a layer, what is
  // copied lies above what is filled.
  struct Writer {
    std::pair<std::uint32_t, bool> order;  // layer, no fill
    std::size_t core = 0;
    isa::TaskId task = 0;
  };
  std::vector<Writer> writers;
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    const isa::Segment& of = program.cores[core].segments[segment];
    for (isa::TaskId id = of.task_first; id < of.task_last; ++id) {
      const isa::TaskDescriptor& task = program.cores[core].tasks[id];
      if (task.engine != isa::EngineKind::kStore) continue;
      writers.push_back({{task.layer, !is_fill(task)}, core, id});
    }
  }
  std::ranges::stable_sort(writers, {}, &Writer::order);
  isa::DmaStep plan;
  for (const Writer& writer : writers) {
    const isa::TaskDescriptor& task = program.cores[writer.core].tasks[writer.task];
    for (std::int64_t step = 0; step < task.steps(); ++step) {
      isa::plan_dma_step(task, step, places, chip, plan);
      if (!plan.writes) break;
      const auto process = static_cast<std::uint8_t>(process_of_core[writer.core]);
      for_each_run({.grid = &plan.write, .runs = plan.write.runs(), .bytes = plan.run_bytes},
                   [&](const ByteRun& run) { mark(run, process); });
    }
  }
  std::vector<std::vector<ByteRun>> result(256);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::vector<std::uint8_t>& of = owners[i];
    for (std::size_t begin = 0; begin < of.size();) {
      std::size_t end = begin;
      while (end < of.size() && of[end] == of[begin]) ++end;
      if (of[begin] != kNobody) {
        result[of[begin]].push_back({ranges[i].address + static_cast<std::int64_t>(begin),
                                     static_cast<std::int64_t>(end - begin)});
      }
      begin = end;
    }
  }
  return result;
}

}  // namespace tessera::card
