// Formats by layer for a bound of accuracy. Every search is for the shortest (or longest) part of an ordered
// list of changes, by halving: some ten runs of the network each, whatever its number of layers.
//
//   misses the bound    products with more mantissa, those first whose own error is largest;
//                       where all of them do not reach it, values in binary32, likewise
//   reaches it          products with less mantissa, those first that save most for what they lose
#include "tessera/format_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "accuracy/layer_errors.h"
#include "accuracy/operand_bytes.h"
#include "accuracy/trial.h"
#include "accuracy/value_ranges.h"

namespace tessera {
namespace {

using accuracy::LayerError;
using accuracy::Trials;

constexpr int kWide = 11, kWidest = 15;
constexpr int kNarrower[] = {9, 7, 5, 3};

// A change of one layer's format.
struct Change {
  std::string layer, tensor;  // a product's mantissa, or a value that becomes binary32
  int mantissa_bits = 0;
};

void apply(const Change& change, LayerFormats& formats) {
  if (!change.layer.empty()) formats.mantissa_bits[change.layer] = change.mantissa_bits;
  if (!change.tensor.empty()) formats.wide.insert(change.tensor);
}

LayerFormats with(LayerFormats formats, std::span<const Change> changes) {
  for (const Change& change : changes) apply(change, formats);
  return formats;
}

struct ProductLayer {
  std::string layer;
  int mantissa_bits = 0;
  double own = 0;
  std::int64_t weight_bytes = 0;
};

class Choice {
 public:
  Choice(Trials& trials, double bound, const ProgressCallback& progress)
      : trials_(trials), bound_(bound), progress_(progress) {}

  Result<FormatChoice> choose() {
    FormatChoice result;
    TESSERA_TRY(result.cosine_before, cosine_of({}));
    TESSERA_TRY(const auto before, trials_.graph({}));
    result.weight_bytes_before = accuracy::operand_bytes(*before).weights;
    TESSERA_TRY(const auto largest, accuracy::largest_magnitudes(trials_));
    formats_.wide = accuracy::out_of_range(largest, trials_.chip().formats.vector);
    TESSERA_TRY(cosine_, cosine_of(formats_));
    TESSERA_TRY(const auto graph, trials_.graph(formats_));
    TESSERA_TRY(errors_, accuracy::layer_errors(trials_, graph));
    find_products(*graph);
    if (cosine_ < bound_) TESSERA_RETURN_IF_ERROR(raise());
    TESSERA_RETURN_IF_ERROR(lower());
    result.formats = formats_;
    result.cosine = cosine_;
    TESSERA_TRY(const auto chosen, trials_.graph(formats_));
    result.weight_bytes = accuracy::operand_bytes(*chosen).weights;
    result.runs = trials_.runs();
    return result;
  }

 private:
  Result<double> cosine_of(const LayerFormats& formats) {
    if (progress_) {
      // Some forty runs in all, as far as one can say.
      progress_("formats", std::min(0.99, static_cast<double>(trials_.runs()) / 40));
    }
    TESSERA_TRY(auto graph, trials_.graph(formats));
    return trials_.cosine(std::move(graph));
  }

  void find_products(const graph::Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      if (accuracy::product_format(node).empty()) continue;
      const MatrixFormat& matrix = *accuracy::matrix_of(node);
      ProductLayer product{
          .layer = node.name,
          .mantissa_bits = std::min(matrix.mantissa_bits_moving, matrix.mantissa_bits_stationary)};
      const graph::TensorInfo& weights = graph.tensor(node.inputs[1]);
      if (weights.constant != nullptr) product.weight_bytes = element_count(weights.dims);
      for (const LayerError& error : errors_) {
        if (error.layer == node.name) product.own = error.own;
      }
      products_.push_back(std::move(product));
    }
  }

  std::vector<Change> more_mantissa(int bits) const {
    std::vector<const ProductLayer*> order;
    for (const ProductLayer& product : products_) {
      if (product.mantissa_bits < bits) order.push_back(&product);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->own > b->own; });
    std::vector<Change> changes;
    for (const ProductLayer* product : order) changes.push_back({product->layer, "", bits});
    return changes;
  }

  std::vector<Change> wide_values() const {
    if (trials_.chip().formats.vector == Format::kF32) return {};
    std::vector<const LayerError*> order;
    for (const LayerError& error : errors_) order.push_back(&error);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->own > b->own; });
    std::vector<Change> changes;
    for (const LayerError* error : order) changes.push_back({"", error->tensor, 0});
    return changes;
  }

  // More mantissa, then values in binary32.
  Status raise() {
    std::vector<Change> products = more_mantissa(kWide);
    for (Change& change : more_mantissa(kWidest)) products.push_back(std::move(change));
    TESSERA_TRY(const double best, cosine_of(with(formats_, products)));
    if (best >= bound_) return take_shortest(products);
    const std::vector<Change> values = wide_values();
    TESSERA_TRY(const double of_values, cosine_of(with(formats_, values)));
    if (of_values >= bound_) return take_shortest(values);
    const LayerFormats before = formats_;
    formats_ = with(formats_, products);
    TESSERA_TRY(const double of_both, cosine_of(with(formats_, values)));
    if (of_both >= bound_) return take_shortest(values);
    return Error{
        ErrorCode::kUnavailable,
        fmt::format(
            "a cosine of {} is out of reach on these inputs: the widest mantissas reach {:.7f}, "
            "values in binary32 {:.7f}, both {:.7f}; --format f32 computes all of it in float32",
            bound_, best, of_values, of_both)};
  }

  // The fewest of the changes, from the front, that reach the bound; all of them do.
  Status take_shortest(const std::vector<Change>& changes) {
    std::size_t fails = 0, reaches = changes.size();
    while (fails + 1 < reaches) {
      const std::size_t middle = (fails + reaches) / 2;
      TESSERA_TRY(const double cosine, cosine_of(with(formats_, std::span(changes).first(middle))));
      (cosine >= bound_ ? reaches : fails) = middle;
    }
    formats_ = with(formats_, std::span(changes).first(reaches));
    TESSERA_TRY(cosine_, cosine_of(formats_));
    return {};
  }

  // Less mantissa as long as the bound holds, by two bits at a time.
  Status lower() {
    for (const int bits : kNarrower) {
      std::vector<const ProductLayer*> order;
      for (const ProductLayer& product : products_) {
        if (bits_of(product) > bits && product.weight_bytes > 0) order.push_back(&product);
      }
      // A bit less doubles a product's own error.
      const auto price = [&](const ProductLayer* product) {
        const int fewer = bits_of(*product) - bits;
        return std::ldexp(product->own, fewer) / static_cast<double>(product->weight_bytes * fewer);
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](const auto* a, const auto* b) { return price(a) < price(b); });
      std::vector<Change> changes;
      for (const ProductLayer* product : order) changes.push_back({product->layer, "", bits});
      TESSERA_RETURN_IF_ERROR(take_longest(changes));
    }
    return {};
  }
  int bits_of(const ProductLayer& product) const {
    const auto found = formats_.mantissa_bits.find(product.layer);
    return found == formats_.mantissa_bits.end() ? product.mantissa_bits : found->second;
  }

  // The most of the changes, from the front, with which the bound still holds.
  Status take_longest(const std::vector<Change>& changes) {
    std::size_t holds = 0, breaks = changes.size() + 1;
    while (holds + 1 < breaks) {
      const std::size_t middle = (holds + breaks) / 2;
      TESSERA_TRY(const double cosine, cosine_of(with(formats_, std::span(changes).first(middle))));
      if (cosine >= bound_) {
        holds = middle;
        cosine_ = cosine;
      } else {
        breaks = middle;
      }
    }
    formats_ = with(formats_, std::span(changes).first(holds));
    return {};
  }

  Trials& trials_;
  const double bound_;
  const ProgressCallback progress_;
  LayerFormats formats_;
  double cosine_ = 0;
  std::vector<LayerError> errors_;
  std::vector<ProductLayer> products_;
};

}  // namespace

Result<LayerFormats> formats_for_ranges(const std::string& path, const LoadOptions& load,
                                        const FormatCases& cases) {
  TESSERA_TRY(const Trials trials, Trials::open(path, load, cases, Trials::Extent::kFirstPart));
  TESSERA_TRY(const auto largest, accuracy::largest_magnitudes(trials));
  LayerFormats formats;
  formats.wide = accuracy::out_of_range(largest, trials.chip().formats.vector);
  return formats;
}

Result<FormatChoice> choose_formats(const std::string& path, const LoadOptions& load,
                                    const FormatCases& cases, double cosine_min) {
  if (!(cosine_min >= 0 && cosine_min < 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a bound of {} for the cosine; 0 to below 1 is allowed", cosine_min)};
  }
  TESSERA_TRY(Trials trials, Trials::open(path, load, cases, Trials::Extent::kFirstPart));
  return Choice(trials, cosine_min, load.progress).choose();
}

}  // namespace tessera
