#include "concord/fold/depth_first.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace tessera::concord {
namespace {

// Operations of one layer that stand together: all of them, as a rule.
struct Stretch {
  std::size_t first = 0, count = 0;
  std::vector<std::size_t> needs = {};  // stretches, in the order of the operands
};

std::vector<Stretch> stretches_of(const Software& software) {
  const std::vector<Operation>& all = software.operations;
  Table<ValueId, std::int64_t> made_by(software.values.size(), -1);
  std::vector<Stretch> stretches;
  for (std::size_t i = 0; i < all.size();) {
    Stretch stretch{.first = i};
    const auto number = std::ssize(stretches);
    for (const LayerIndex layer = all[i].layer; i < all.size() && all[i].layer == layer; ++i) {
      for (const ValueId id : all[i].inputs) {
        const std::int64_t by = made_by[id];
        if (by >= 0 && by != number) stretch.needs.push_back(static_cast<std::size_t>(by));
      }
      for (const ValueId id : all[i].outputs) made_by[id] = number;
      ++stretch.count;
    }
    stretches.push_back(std::move(stretch));
  }
  return stretches;
}

// From the last stretch that makes an output back, then what nobody reads.
class DepthFirst {
 public:
  explicit DepthFirst(const std::vector<Stretch>& stretches)
      : stretches_(stretches), entered_(stretches.size(), false) {}

  void visit(std::size_t stretch) {
    enter(stretch);
    while (!way_.empty()) {
      auto& [at, next] = way_.back();
      const std::vector<std::size_t>& needs = stretches_[at].needs;
      if (next < needs.size()) {
        enter(needs[next++]);
      } else {
        order_.push_back(at);
        way_.pop_back();
      }
    }
  }
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  void enter(std::size_t stretch) {
    if (entered_[stretch]) return;
    entered_[stretch] = true;
    way_.emplace_back(stretch, 0);
  }

  const std::vector<Stretch>& stretches_;
  std::vector<bool> entered_;
  std::vector<std::pair<std::size_t, std::size_t>>
      way_;  // stretches, and which of their needs is next
  std::vector<std::size_t> order_;
};

// Layers in the order of their operations; one without any stays behind the one before it.
void order_layers(Software& software) {
  std::vector<std::size_t> first(software.layers.size(), SIZE_MAX);
  for (std::size_t i = software.operations.size(); i-- > 0;) {
    const LayerIndex layer = software.operations[i].layer;
    if (layer >= 0) first[static_cast<std::size_t>(layer)] = i;
  }
  for (std::size_t layer = 0; layer < first.size(); ++layer) {
    if (first[layer] == SIZE_MAX) first[layer] = layer == 0 ? 0 : first[layer - 1];
  }
  std::vector<LayerIndex> order(first.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, {}, [&](LayerIndex layer) { return first[static_cast<std::size_t>(layer)]; });
  Table<LayerIndex, LayerIndex> now(order.size(), -1);
  std::vector<Layer> layers;
  for (const LayerIndex old : order) {
    now[old] = static_cast<LayerIndex>(layers.size());
    layers.push_back(std::move(software.layers[old]));
  }
  software.layers = std::move(layers);
  for (Operation& operation : software.operations) {
    if (operation.layer >= 0) operation.layer = now[operation.layer];
  }
}

}  // namespace

std::optional<Software> ordered_depth_first(const Software& software) {
  const std::vector<Stretch> stretches = stretches_of(software);
  Table<ValueId, bool> is_output(software.values.size(), false);
  for (const Port& port : software.outputs) is_output[port.value] = true;
  DepthFirst search(stretches);
  for (const bool outputs : {true, false}) {
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      const auto begin =
          software.operations.begin() + static_cast<std::ptrdiff_t>(stretches[i].first);
      const bool makes_output =
          std::any_of(begin, begin + static_cast<std::ptrdiff_t>(stretches[i].count),
                      [&](const Operation& one) {
                        return std::ranges::any_of(one.outputs,
                                                   [&](ValueId id) { return bool{is_output[id]}; });
                      });
      if (makes_output || !outputs) search.visit(i);
    }
  }
  if (std::ranges::is_sorted(search.order())) return std::nullopt;
  Software result = software;
  result.operations.clear();
  for (const std::size_t number : search.order()) {
    const Stretch& stretch = stretches[number];
    for (std::size_t i = stretch.first; i < stretch.first + stretch.count; ++i) {
      result.operations.push_back(software.operations[i]);
    }
  }
  order_layers(result);
  return result;
}

}  // namespace tessera::concord
