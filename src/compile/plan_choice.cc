#include "compile/plan_choice.h"

#include <algorithm>

#include "compile/early_outputs.h"
#include "compile/engine_choice.h"
#include "compile/make_plan.h"
#include "isa/dependencies.h"

namespace tessera::compile {
namespace {

// Longest cascades that are tried, in layers.
constexpr std::int32_t kLengthsTried[] = {32, 4, 3, 2};
// Layers behind an input that pass their results on.
constexpr std::int32_t kPassingLayersTried[] = {1, 2, 3, 4, 6};
constexpr Passing kUsualPassing{.layers = 1};
// What takes more of the state buffer leaves too little for anything beside it.
constexpr std::int32_t kLargePart = 2;
// Parts of a step's usual pixels that are tried: 1, 1/2 and 1/4.
constexpr std::int64_t kStepPartsMax = 4;

// Cascades, pieces and blocks are the same, and so is where those lie.
bool same_plans(const Plan& a, const Plan& b) {
  const auto same_block = [](const PlacedBlock& x, const PlacedBlock& y) {
    return x.first == y.first && x.last == y.last && x.bytes == y.bytes && x.offset == y.offset;
  };
  return a.cascades == b.cascades && a.pieces.size() == b.pieces.size() &&
         std::ranges::equal(a.buffer_blocks, b.buffer_blocks, same_block) &&
         std::ranges::equal(a.home_blocks, b.home_blocks, same_block);
}

class Chooser {
 public:
  Chooser(const PlanInputs& inputs, const Addresses& addresses, const Passing& passing)
      : inputs_(inputs),
        addresses_(addresses),
        passing_(passing),
        count_(std::ssize(inputs.layers)) {}

  // The best plan, and of it the order in DRAM and the lengths of steps that take less time.
  Result<Draft> run() const {
    TESSERA_TRY(Draft best, choose());
    const DramOrders orders = DramOrders::by_rows(inputs_, best.plan);
    bool by_rows = false;
    if (!orders.empty()) {
      Draft other;
      other.plan = best.plan;
      TESSERA_RETURN_IF_ERROR(finish(other, orders));
      predict(best);
      predict(other);
      by_rows = other.timeline.cycles < best.timeline.cycles;
      if (by_rows) best = std::move(other);
    }
    if (inputs_.options.step_pixels != 0) return best;
    TESSERA_RETURN_IF_ERROR(choose_steps(best, by_rows ? orders : DramOrders{}));
    return best;
  }

  // The longest cascades, whatever others would take; with its timeline, unless `known` has the same plan.
  Result<Draft> first(const std::vector<Plan>& known) const {
    Draft draft;
    TESSERA_TRY(draft.plan, make_plan(inputs_, at_most(kLengthsTried[0]), {passing_}));
    const auto same = [&](const Plan& plan) { return same_plans(plan, draft.plan); };
    if (std::ranges::any_of(known, same)) return draft;
    TESSERA_RETURN_IF_ERROR(finish(draft));
    predict(draft);
    return draft;
  }
  // The same with its outputs early, where that takes less.
  Status try_early_outputs(Draft& best) const {
    if (early_outputs(inputs_, best.plan).empty()) return {};
    auto plan = make_plan(inputs_, only(best.plan.cascades), {passing_, true});
    if (!plan.ok() && plan.error().code == ErrorCode::kUnavailable) return plan.error();
    if (!plan.ok()) return {};
    Draft other;
    other.plan = std::move(*plan);
    TESSERA_RETURN_IF_ERROR(finish(other, best.orders, best.steps));
    predict(other);
    time(best);
    if (other.timeline.cycles < best.timeline.cycles) best = std::move(other);
    return {};
  }
  // Takes a hundredth less.
  static bool worth_it(const Draft& of, const Draft& than) {
    return of.timeline.cycles < than.timeline.cycles * 99 / 100;
  }
  // Where nothing was chosen yet.
  void time(Draft& of) const {
    if (of.timeline.ends.empty()) predict(of);
  }

 private:
  Result<Draft> choose() const {
    Draft best;
    TESSERA_TRY(best.plan, make_plan(inputs_, at_most(kLengthsTried[0]), {passing_}));
    TESSERA_RETURN_IF_ERROR(finish(best));
    if (best.plan.cascades.empty()) return best;
    Draft none;
    auto apart = make_plan(inputs_, at_most(1), {passing_});
    if (!apart.ok() && apart.error().code == ErrorCode::kUnavailable) return apart.error();
    if (!apart.ok()) return best;
    none.plan = std::move(*apart);
    TESSERA_RETURN_IF_ERROR(finish(none));
    predict(best);
    predict(none);
    const std::vector<Cycles> ends = layer_ends(none);
    std::vector<TimedRange> cascades;
    take_cascades(best, ends, cascades);
    std::vector<std::vector<LayerRange>> tried = {best.plan.cascades, none.plan.cascades};
    const auto try_ends = [&](const Table<LayerIndex, LayerIndex>& cascade_ends) -> Status {
      Draft other;
      auto plan = make_plan(inputs_, cascade_ends, {passing_});
      if (!plan.ok() && plan.error().code == ErrorCode::kUnavailable) return plan.error();
      if (!plan.ok() || std::find(tried.begin(), tried.end(), plan->cascades) != tried.end()) {
        return {};
      }
      tried.push_back(plan->cascades);
      other.plan = std::move(*plan);
      TESSERA_RETURN_IF_ERROR(finish(other));
      predict(other);
      take_cascades(other, ends, cascades);
      if (other.timeline.cycles < best.timeline.cycles) best = std::move(other);
      return {};
    };
    for (const std::int32_t length : kLengthsTried) {
      if (length != kLengthsTried[0]) TESSERA_RETURN_IF_ERROR(try_ends(at_most(length)));
    }
    TESSERA_RETURN_IF_ERROR(try_ends(only(fastest_cascades(differences(ends), cascades))));
    if (none.timeline.cycles < best.timeline.cycles) best = std::move(none);
    return best;
  }
  // Short steps let layers overlap, long ones fill the array: all layers alike, then each as it took least.
  Status choose_steps(Draft& best, const DramOrders& orders) const {
    const std::int64_t most = step_pixels(inputs_);
    StepPixels chosen(static_cast<std::size_t>(count_), most);
    predict(best);
    std::vector<Cycles> least = differences(layer_ends(best));
    for (std::int64_t parts = 2; parts <= kStepPartsMax; parts *= 2) {
      const std::int64_t pixels = std::max<std::int64_t>(1, most / parts);
      TESSERA_TRY(Draft other, with_steps(best, orders, StepPixels(chosen.size(), pixels)));
      const std::vector<Cycles> cycles = differences(layer_ends(other));
      for (std::size_t i = 0; i < cycles.size(); ++i) {
        if (cycles[i] >= least[i]) continue;
        least[i] = cycles[i];
        chosen[static_cast<std::int64_t>(i)] = pixels;
      }
      if (other.timeline.cycles < best.timeline.cycles) best = std::move(other);
    }
    TESSERA_TRY(Draft mixed, with_steps(best, orders, chosen));
    if (mixed.timeline.cycles < best.timeline.cycles) best = std::move(mixed);
    return {};
  }
  Result<Draft> with_steps(const Draft& of, const DramOrders& orders,
                           const StepPixels& steps) const {
    Draft other;
    other.plan = of.plan;
    TESSERA_RETURN_IF_ERROR(finish(other, orders, steps));
    predict(other);
    return other;
  }
  // Of each layer, the last one of a cascade that begins with it.
  Table<LayerIndex, LayerIndex> at_most(std::int32_t length) const {
    Table<LayerIndex, LayerIndex> last;
    for (std::int64_t i = 0; i < count_; ++i) {
      last.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(i + length, count_)) - 1);
    }
    return last;
  }
  Table<LayerIndex, LayerIndex> only(const std::vector<LayerRange>& cascades) const {
    Table<LayerIndex, LayerIndex> last = at_most(1);
    for (const LayerRange& range : cascades) {
      last[range.first] = range.last;
    }
    return last;
  }

  // Addresses, tasks and dependencies of the draft's plan.
  Status finish(Draft& of, const DramOrders& orders = {}, const StepPixels& steps = {}) const {
    Watch* const watch = inputs_.options.watch;
    TESSERA_RETURN_IF_ERROR(watched(watch, "emit_tasks"));
    of.addresses = addresses_;
    for (std::size_t i = 0; i < of.plan.homes.size(); ++i) {
      const std::int32_t home = of.plan.homes[i];
      if (home < 0) continue;
      of.addresses[i].offset = static_cast<std::uint64_t>(of.plan.home_blocks[home].offset);
    }
    of.passing = passing_;
    of.orders = orders;
    of.steps = steps;
    of.tasks = emit_tasks(inputs_, of.plan, of.addresses, orders, steps);
    TESSERA_RETURN_IF_ERROR(watched(watch, "derive_dependencies"));
    choose_engines(inputs_.chip, of.tasks.segments, of.tasks.tasks);
    of.dependencies_dropped =
        isa::derive_dependencies(inputs_.chip, of.tasks.segments, of.tasks.tasks);
    return watched(watch, "predict_timeline");
  }

  void predict(Draft& of) const {
    of.timeline = predict_timeline(inputs_.chip, of.tasks.segments, of.tasks.tasks);
  }

  // When each layer and all before it are done.
  std::vector<Cycles> layer_ends(const Draft& of) const {
    std::vector<Cycles> ends(static_cast<std::size_t>(count_), 0);
    for (std::size_t i = 0; i < of.tasks.tasks.size(); ++i) {
      Cycles& end = ends[of.tasks.tasks[i].layer];
      end = std::max(end, of.timeline.ends[i]);
    }
    for (std::size_t i = 1; i < ends.size(); ++i) ends[i] = std::max(ends[i], ends[i - 1]);
    return ends;
  }

  static std::vector<Cycles> differences(std::vector<Cycles> ends) {
    for (std::size_t i = ends.size(); i-- > 1;) ends[i] -= ends[i - 1];
    return ends;
  }

  void take_cascades(const Draft& of, const std::vector<Cycles>& apart,
                     std::vector<TimedRange>& cascades) const {
    const std::vector<Cycles> ends = layer_ends(of);
    const auto span = [](const std::vector<Cycles>& all, const LayerRange& range) {
      const auto first = static_cast<std::size_t>(range.first);
      return all[range.last] - (first == 0 ? 0 : all[first - 1]);
    };
    for (const LayerRange& range : of.plan.cascades) {
      const Cycles together = span(ends, range);
      if (together < span(apart, range)) cascades.push_back({range, together});
    }
  }

  const PlanInputs& inputs_;
  const Addresses& addresses_;
  const Passing passing_;
  const std::int64_t count_;
};

}  // namespace

std::vector<LayerRange> fastest_cascades(const std::vector<Cycles>& alone,
                                         const std::vector<TimedRange>& cascades) {
  const std::size_t count = alone.size();
  std::vector<Cycles> best(count + 1, 0);  // of the first i layers
  std::vector<std::int32_t> chosen(count + 1, -1);
  std::vector<std::vector<std::size_t>> ending(count + 1);  // cascades of the first i layers' end
  for (std::size_t c = 0; c < cascades.size(); ++c) {
    ending[static_cast<std::size_t>(cascades[c].layers.last) + 1].push_back(c);
  }
  for (std::size_t i = 1; i <= count; ++i) {
    best[i] = best[i - 1] + alone[i - 1];
    for (const std::size_t c : ending[i]) {
      const Cycles sum = best[cascades[c].layers.first] + cascades[c].cycles;
      if (sum >= best[i]) continue;
      best[i] = sum;
      chosen[i] = static_cast<std::int32_t>(c);
    }
  }
  std::vector<LayerRange> result;
  for (std::size_t i = count; i > 0;) {
    if (chosen[i] < 0) {
      --i;
      continue;
    }
    result.push_back(cascades[chosen[i]].layers);
    i = static_cast<std::size_t>(result.back().first);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

namespace {

// The other way of passing an input on that takes least with the longest cascades; the usual one where none does.
Result<Passing> other_passing(const PlanInputs& inputs, const Addresses& addresses) {
  Passing best = kUsualPassing;
  Cycles least = 0;
  std::vector<Plan> known;
  for (const bool wide_rings : {false, true}) {
    for (const std::int32_t layers : kPassingLayersTried) {
      const Passing passing{.layers = layers, .wide_rings = wide_rings};
      auto draft = Chooser(inputs, addresses, passing).first(known);
      if (!draft.ok() && draft.error().code == ErrorCode::kUnavailable) return draft.error();
      if (!draft.ok() || draft->timeline.ends.empty()) continue;
      known.push_back(std::move(draft->plan));
      if (least != 0 && draft->timeline.cycles >= least) continue;
      best = passing;
      least = draft->timeline.cycles;
    }
  }
  return best;
}

// `best` without its input passed on, where that takes less.
Status try_resident(const PlanInputs& inputs, const Addresses& addresses, Draft& best) {
  const Chooser resident(inputs, addresses, {});
  auto other = resident.run();
  if (!other.ok()) return {};
  resident.time(best);
  resident.time(*other);
  if (other->timeline.cycles < best.timeline.cycles) best = std::move(*other);
  return {};
}

Result<Draft> choose_passing(const PlanInputs& inputs, const Addresses& addresses) {
  const Chooser usual(inputs, addresses, kUsualPassing);
  TESSERA_TRY(Draft best, usual.run());
  const bool begins = !best.plan.cascades.empty() && best.plan.cascades[0].first == 0;
  if (best.plan.passes_by) TESSERA_RETURN_IF_ERROR(try_resident(inputs, addresses, best));
  if (!begins && !best.plan.passes_by) return best;
  TESSERA_TRY(const Passing passing, other_passing(inputs, addresses));
  if (passing.layers == kUsualPassing.layers && !passing.wide_rings) return best;
  const Chooser chooser(inputs, addresses, passing);
  auto other = chooser.run();
  if (!other.ok()) return best;
  chooser.time(best);
  chooser.time(*other);
  if (Chooser::worth_it(*other, best)) return other;
  return best;
}

// `best` without blocks that take most of the state buffer, where that takes less: images of which only a few layers, or parts
// of layers, find room beside each other.
Status try_small_residents(const PlanInputs& inputs, const Addresses& addresses, Draft& best) {
  const std::int64_t large = inputs.chip.state_buffer.bytes_per_partition / kLargePart;
  const auto is_large = [&](const PlacedBlock& block) { return block.bytes > large; };
  if (!inputs.options.cascades || !inputs.options.resident ||
      std::ranges::none_of(best.plan.buffer_blocks, is_large)) {
    return {};
  }
  Passing passing = best.passing;
  passing.resident_part = kLargePart;
  const Chooser chooser(inputs, addresses, passing);
  auto other = chooser.run();
  if (!other.ok() && other.error().code == ErrorCode::kUnavailable) return other.error();
  if (!other.ok()) return {};
  chooser.time(best);
  chooser.time(*other);
  if (Chooser::worth_it(*other, best)) best = std::move(*other);
  return {};
}

}  // namespace

Result<Draft> choose_plan(const PlanInputs& inputs, const Addresses& addresses) {
  TESSERA_TRY(Draft best, choose_passing(inputs, addresses));
  TESSERA_RETURN_IF_ERROR(try_small_residents(inputs, addresses, best));
  TESSERA_RETURN_IF_ERROR(Chooser(inputs, addresses, best.passing).try_early_outputs(best));
  return best;
}

}  // namespace tessera::compile
