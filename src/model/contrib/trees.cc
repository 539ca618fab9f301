// Ensembles of decision trees, all rows and all trees at once, a level a step:
//
//   place [rows, trees]  ─►  feature, threshold, both children of the node there  ─►  x[feature] <= threshold  ─►  next place
//
// A leaf is its own child, so that all arrive after as many steps as the deepest tree has levels. Values at leaves are then
// summed over the trees. Features are compared in f64, which holds what any model stores, on the host.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/contrib/table.h"

namespace tessera::model::contrib {
namespace {

using Longs = std::vector<std::int64_t>;

// The nodes of all trees behind each other.
struct Trees {
  Longs feature, left, right, roots, missing_goes_left;
  std::vector<double> threshold;
  std::string mode;  // of all branches
  std::int64_t levels = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> place;  // of (tree, node)
};

// Levels below the node; more than there are nodes means a circle.
std::int64_t levels_below(const Trees& trees, std::int64_t root) {
  std::vector<std::pair<std::int64_t, std::int64_t>> open = {{root, 0}};
  std::int64_t most = 0;
  while (!open.empty()) {
    const auto [at, level] = open.back();
    open.pop_back();
    most = std::max(most, level);
    if (most > std::ssize(trees.feature)) return most;
    const auto i = static_cast<std::size_t>(at);
    if (trees.left[i] == at) continue;
    open.emplace_back(trees.left[i], level + 1);
    open.emplace_back(trees.right[i], level + 1);
  }
  return most;
}

Refusal place_children(const Body& body, const Longs& tree, const std::vector<std::string>& modes,
                       Trees& trees) {
  const Longs yes = body.integers("nodes_truenodeids"), no = body.integers("nodes_falsenodeids");
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const auto self = static_cast<std::int64_t>(i);
    if (modes[i] == "LEAF") {
      trees.left.push_back(self);
      trees.right.push_back(self);
      continue;
    }
    if (trees.mode.empty()) trees.mode = modes[i];
    if (trees.mode != modes[i]) return fmt::format("branches of {} and {}", trees.mode, modes[i]);
    const auto left = trees.place.find({tree[i], yes[i]}),
               right = trees.place.find({tree[i], no[i]});
    if (left == trees.place.end() || right == trees.place.end()) return "a node without a child";
    trees.left.push_back(left->second);
    trees.right.push_back(right->second);
  }
  return {};
}

Refusal read_trees(const Body& body, Trees& trees) {
  const Longs tree = body.integers("nodes_treeids"), node = body.integers("nodes_nodeids");
  const std::vector<float> values = body.reals("nodes_values");
  const std::vector<std::string> modes = body.texts("nodes_modes");
  trees.feature = body.integers("nodes_featureids");
  trees.missing_goes_left = body.integers("nodes_missing_value_tracks_true");
  for (const std::size_t size :
       {tree.size(), node.size(), values.size(), trees.feature.size(),
        body.integers("nodes_truenodeids").size(), body.integers("nodes_falsenodeids").size()}) {
    if (size != modes.size() || modes.empty())
      return "lists of nodes that differ in length, or none";
  }
  trees.threshold.assign(values.begin(), values.end());
  for (std::size_t i = 0; i < modes.size(); ++i) {
    trees.place[{tree[i], node[i]}] = static_cast<std::int64_t>(i);
  }
  if (Refusal refusal = place_children(body, tree, modes, trees); !refusal.empty()) return refusal;
  std::set<std::int64_t> children;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const auto self = static_cast<std::int64_t>(i);
    if (trees.left[i] != self) children.insert({trees.left[i], trees.right[i]});
    // A leaf's own entries are read, and mean nothing.
    if (trees.left[i] == self) trees.feature[i] = 0;
  }
  for (std::int64_t i = 0; i < std::ssize(modes); ++i) {
    if (!children.contains(i)) trees.roots.push_back(i);
  }
  for (const std::int64_t root : trees.roots) {
    trees.levels = std::max(trees.levels, levels_below(trees, root));
  }
  if (trees.roots.empty() || trees.levels > std::ssize(modes))
    return "nodes that go round in a circle";
  return {};
}

// Whether the branch is taken.
std::string compared(Body& body, const std::string& mode, const std::string& x,
                     const std::string& threshold) {
  if (mode == "BRANCH_LT") return body.node("Less", {x, threshold});
  if (mode == "BRANCH_GT") return body.node("Greater", {x, threshold});
  std::string equal = body.node("Equal", {x, threshold});
  if (mode == "BRANCH_EQ") return equal;
  if (mode == "BRANCH_NEQ") return body.node("Not", {equal});
  const std::string strictly = body.node(mode == "BRANCH_GTE" ? "Greater" : "Less", {x, threshold});
  return body.node("Or", {strictly, equal});
}

// The place of the leaf that each row [rows, trees] comes to.
std::string leaves(Body& body, const Trees& trees) {
  const std::string x = wide(body, 0);
  const std::string feature = body.list(trees.feature), left = body.list(trees.left),
                    right = body.list(trees.right),
                    threshold = exact_numbers(body, trees.threshold);
  const bool misses = std::ranges::any_of(trees.missing_goes_left,
                                          [](std::int64_t left_if) { return left_if != 0; });
  const std::string goes_left =
      misses ? body.cast(body.list(trees.missing_goes_left), onnx::TensorProto::BOOL) : "";
  const std::string rows = body.length(x, 0);
  const std::string shape = body.node("Concat", {rows, body.list({std::ssize(trees.roots)})},
                                      {{"axis", std::int64_t{0}}});
  std::string place = body.node("Expand", {body.reshaped(body.list(trees.roots), {1, -1}), shape});
  for (std::int64_t level = 0; level < trees.levels; ++level) {
    const std::string value = body.node(
        "GatherElements", {x, body.node("Gather", {feature, place})}, {{"axis", std::int64_t{1}}});
    std::string taken = compared(body, trees.mode, value, body.node("Gather", {threshold, place}));
    if (misses) {
      const std::string missing =
          body.node("And", {body.node("IsNaN", {value}), body.node("Gather", {goes_left, place})});
      taken = body.node("Or", {taken, missing});
    }
    place = body.node(
        "Where", {taken, body.node("Gather", {left, place}), body.node("Gather", {right, place})});
  }
  return place;
}

// What leaves say of `columns` targets or classes; `kind` is "target" or "class".
Refusal leaf_values(const Body& body, const Trees& trees, const std::string& kind,
                    std::int64_t columns, std::vector<double>& values) {
  const Longs tree = body.integers(kind + "_treeids"), node = body.integers(kind + "_nodeids"),
              id = body.integers(kind + "_ids");
  const std::vector<float> weights = body.reals(kind + "_weights");
  if (tree.size() != weights.size() || node.size() != weights.size() ||
      id.size() != weights.size()) {
    return "lists of leaves that differ in length";
  }
  values.assign(trees.feature.size() * static_cast<std::size_t>(columns), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto place = trees.place.find({tree[i], node[i]});
    if (place == trees.place.end() || id[i] < 0 || id[i] >= columns)
      return "a leaf that is not there";
    values[static_cast<std::size_t>(place->second * columns + id[i])] += weights[i];
  }
  return {};
}

// [rows, columns].
std::string summed(Body& body, const Trees& trees, const std::vector<double>& values,
                   std::int64_t columns) {
  const std::string table = exact_numbers(body, values, {std::ssize(trees.feature), columns});
  std::string sum = body.total(body.node("Gather", {table, leaves(body, trees)}), 1);
  if (body.text("aggregate_function", "SUM") == "AVERAGE") {
    sum = body.node("Div", {sum, exact_numbers(body, {static_cast<double>(trees.roots.size())})});
  }
  return sum;
}

Refusal check(const Body& body) {
  constexpr std::int64_t kSinceGatherElements = 11;
  if (body.opset() < kSinceGatherElements) {
    return fmt::format("opset {} of the standard; convert the model with 11 or more", body.opset());
  }
  const std::string aggregate = body.text("aggregate_function", "SUM");
  if (aggregate != "SUM" && aggregate != "AVERAGE") {
    return fmt::format("the attribute aggregate_function = {}", aggregate);
  }
  if (body.says("nodes_values_as_tensor")) return "the attribute nodes_values_as_tensor";
  return {};
}

std::string with_base(Body& body, const std::string& sum) {
  const std::vector<float> base = body.reals("base_values");
  return base.empty() ? sum : body.node("Add", {sum, numbers(body, base)});
}

}  // namespace

Refusal write_tree_regressor(Body& body) {
  Trees trees;
  std::vector<double> values;
  const std::int64_t targets = body.integer("n_targets", 1);
  if (Refusal refusal = check(body); !refusal.empty()) return refusal;
  if (Refusal refusal = read_trees(body, trees); !refusal.empty()) return refusal;
  if (Refusal refusal = leaf_values(body, trees, "target", targets, values); !refusal.empty()) {
    return refusal;
  }
  if (targets == 1 && body.text("post_transform", "NONE") != "NONE") {
    return "the attribute post_transform of one target, of which implementations make different "
           "things; leave it out, and add the function behind it";
  }
  std::string scores = with_base(body, summed(body, trees, values, targets));
  if (Refusal refusal = transformed(body, scores); !refusal.empty()) return refusal;
  body.output(0, narrow(body, scores));
  return {};
}

Refusal write_tree_classifier(Body& body) {
  Trees trees;
  std::vector<double> values;
  const Longs labels = body.integers("classlabels_int64s"), ids = body.integers("class_ids");
  if (Refusal refusal = check(body); !refusal.empty()) return refusal;
  if (Refusal refusal = read_trees(body, trees); !refusal.empty()) return refusal;
  if (Refusal refusal = leaf_values(body, trees, "class", std::ssize(labels), values);
      !refusal.empty()) {
    return refusal;
  }
  const bool one = labels.size() == 2 && std::set<std::int64_t>(ids.begin(), ids.end()).size() == 1;
  if (!one)
    return write_classes(body, with_base(body, summed(body, trees, values, std::ssize(labels))),
                         labels);
  // Two classes, and leaves that speak of one: a probability where no weight is negative.
  std::vector<double> single;
  for (std::size_t i = static_cast<std::size_t>(ids[0]); i < values.size(); i += 2)
    single.push_back(values[i]);
  const std::vector<float> weights = body.reals("class_weights");
  const bool positive = std::ranges::all_of(weights, [](float weight) { return weight >= 0; });
  const std::vector<float> base = body.reals("base_values");
  if (base.size() > 1) return "two base values for leaves of one class";
  const std::string score = with_base(body, summed(body, trees, single, 1));
  return positive ? write_two_classes(body, score, labels, 0.5f, OneScore::kRest)
                  : write_two_classes(body, score, labels, 0, OneScore::kOpposite);
}

}  // namespace tessera::model::contrib
