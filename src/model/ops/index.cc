#include "model/ops/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

// An index of a tensor, counted from the end where negative.
Result<std::int64_t> checked_index(std::int64_t index, std::int64_t length) {
  if (index < -length || index >= length) {
    return invalid(fmt::format("index {} is outside [{}, {}]", index, -length, length - 1));
  }
  return index < 0 ? index + length : index;
}

}  // namespace

Result<Outputs> gather_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  const Shape& in = call.dims(0);
  Shape dims(in.begin(), in.begin() + axis);
  dims.insert(dims.end(), call.dims(1).begin(), call.dims(1).end());
  dims.insert(dims.end(), in.begin() + axis + 1, in.end());
  return one_output(call.format(0), std::move(dims));
}

Status gather(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  const AxisView view = view_axis(call.dims(0), axis);
  const std::int64_t count = element_count(call.dims(1));
  const Reader<std::int64_t> indices(call.tensor(1));
  const Copier copier(call.tensor(0), outputs[0]);
  for (std::int64_t i = 0; i < count; ++i) {
    TESSERA_TRY(const std::int64_t index, checked_index(indices[i], view.length));
    for (std::int64_t outer = 0; view.inner > 0 && outer < view.outer; ++outer) {
      copier.copy((outer * view.length + index) * view.inner, (outer * count + i) * view.inner,
                  view.inner);
    }
  }
  return {};
}

namespace {

// The indices tensor fits into the data except along the axis.
Status check_element_indices(const Call& call, std::int64_t axis) {
  bool fits = call.rank(0) == call.rank(1);
  for (std::size_t i = 0; fits && i < call.dims(0).size(); ++i) {
    fits = i == static_cast<std::size_t>(axis) || call.dims(1)[i] <= call.dims(0)[i];
  }
  if (fits) return {};
  return invalid(fmt::format("indices of shape {} for data of shape {}", shape_text(call.dims(1)),
                             shape_text(call.dims(0))));
}

}  // namespace

Result<Outputs> gather_elements_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  TESSERA_RETURN_IF_ERROR(check_element_indices(call, axis));
  return one_output(call.format(0), call.dims(1));
}

Status gather_elements(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  const auto a = static_cast<std::size_t>(axis);
  const std::vector<std::int64_t> strides = strides_of(call.dims(0));
  const std::int64_t length = call.dims(0)[a];
  const Reader<std::int64_t> indices(call.tensor(1));
  const Copier copier(call.tensor(0), outputs[0]);
  Status status;
  walk<1>(outputs[0].dims, {strides}, [&](std::int64_t position, const auto& offsets) {
    if (!status.ok()) return;
    const auto index = checked_index(indices[position], length);
    if (!index.ok()) {
      status = index.error();
      return;
    }
    const std::int64_t own = position / view_axis(outputs[0].dims, axis).inner % outputs[0].dims[a];
    copier.copy(offsets[0] + (index.value() - own) * strides[a], position);
  });
  return status;
}

namespace {

// GatherND and ScatterND see data as [batch..., indexed..., slice...].
struct NdView {
  std::int64_t batches = 1;         // product of the batch dimensions
  std::int64_t tuples = 1;          // index tuples in each batch
  std::int64_t depth = 0;           // length of a tuple
  std::int64_t slice = 1;           // elements behind a tuple
  std::int64_t batch_elements = 1;  // elements of the data in one batch
  Shape indexed;                    // the dimensions a tuple points into
};

Result<NdView> view_nd(const Call& call, std::int64_t batch_dims) {
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 1));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(1, 1));
  const Shape& data = call.dims(0);
  const Shape& indices = call.dims(1);
  const std::int64_t depth = indices.back();
  if (batch_dims < 0 || batch_dims >= std::min(call.rank(0), call.rank(1)) ||
      depth > call.rank(0) - batch_dims || depth < 1) {
    return invalid(fmt::format("indices of shape {} for data of shape {} with {} batch dimensions",
                               shape_text(indices), shape_text(data), batch_dims));
  }
  NdView view;
  view.depth = depth;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    if (axis < batch_dims) {
      if (data[i] != indices[i]) {
        return invalid(fmt::format("batch dimension {} is {} in the data and {} in the indices", i,
                                   data[i], indices[i]));
      }
      view.batches *= data[i];
      continue;
    }
    view.batch_elements *= data[i];
    if (axis < batch_dims + depth) {
      view.indexed.push_back(data[i]);
    } else {
      view.slice *= data[i];
    }
  }
  for (std::size_t i = static_cast<std::size_t>(batch_dims); i + 1 < indices.size(); ++i) {
    view.tuples *= indices[i];
  }
  return view;
}

// The first element of the slice that tuple number `tuple` (over all batches) names.
Result<std::int64_t> nd_offset(const NdView& view, const Reader<std::int64_t>& indices,
                               std::int64_t tuple) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < view.indexed.size(); ++i) {
    TESSERA_TRY(
        const std::int64_t index,
        checked_index(indices[tuple * view.depth + static_cast<std::int64_t>(i)], view.indexed[i]));
    offset = offset * view.indexed[i] + index;
  }
  return tuple / view.tuples * view.batch_elements + offset * view.slice;
}

}  // namespace

Result<Outputs> gather_nd_shape(const Call& call) {
  const std::int64_t batch_dims = call.attribute("batch_dims", 0);
  TESSERA_TRY(const NdView view, view_nd(call, batch_dims));
  Shape dims(call.dims(1).begin(), call.dims(1).end() - 1);
  dims.insert(dims.end(), call.dims(0).begin() + batch_dims + view.depth, call.dims(0).end());
  return one_output(call.format(0), std::move(dims));
}

Status gather_nd(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const NdView view, view_nd(call, call.attribute("batch_dims", 0)));
  const Reader<std::int64_t> indices(call.tensor(1));
  const Copier copier(call.tensor(0), outputs[0]);
  for (std::int64_t tuple = 0; tuple < view.batches * view.tuples; ++tuple) {
    TESSERA_TRY(const std::int64_t from, nd_offset(view, indices, tuple));
    if (view.slice > 0) copier.copy(from, tuple * view.slice, view.slice);
  }
  return {};
}

namespace {

// Puts updates[from] into output[to], combined as attribute 'reduction' says.
class Scatterer {
 public:
  Scatterer(const Call& call, const Tensor& updates, Tensor& output)
      : reduction_(call.attribute_string("reduction", "none")),
        updates_(updates),
        output_(output),
        copier_(updates, output) {}

  void put(std::int64_t from, std::int64_t to) const {
    if (reduction_ == "none") {
      copier_.copy(from, to);
      return;
    }
    with_working_type(output_.format, [&]<typename W>() {
      const W a = Reader<W>(output_)[to];
      const W b = Reader<W>(updates_)[from];
      Writer<W>(output_).set(to, combine(a, b));
    });
  }

 private:
  template <typename W>
  W combine(W a, W b) const {
    if (reduction_ == "max") return std::max(a, b);
    if (reduction_ == "min") return std::min(a, b);
    if constexpr (std::is_integral_v<W>) {
      const auto x = static_cast<std::uint64_t>(a);
      const auto y = static_cast<std::uint64_t>(b);
      return static_cast<W>(reduction_ == "add" ? x + y : x * y);
    } else {
      return reduction_ == "add" ? a + b : a * b;
    }
  }

  const std::string reduction_;
  const Tensor& updates_;
  Tensor& output_;
  const Copier copier_;
};

}  // namespace

Result<Outputs> scatter_elements_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  TESSERA_RETURN_IF_ERROR(check_element_indices(call, axis));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 2));
  if (call.dims(1) != call.dims(2)) {
    return invalid(fmt::format("indices of shape {} and updates of shape {}",
                               shape_text(call.dims(1)), shape_text(call.dims(2))));
  }
  return one_output(call.format(0), call.dims(0));
}

Status scatter_elements(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  const auto a = static_cast<std::size_t>(axis);
  outputs[0].bytes = call.tensor(0).bytes;
  const std::vector<std::int64_t> strides = strides_of(call.dims(0));
  const Reader<std::int64_t> indices(call.tensor(1));
  const Scatterer scatterer(call, call.tensor(2), outputs[0]);
  Status status;
  walk_indices(call.dims(1), [&](std::int64_t position, const auto& at) {
    if (!status.ok()) return;
    const auto index = checked_index(indices[position], call.dims(0)[a]);
    if (!index.ok()) {
      status = index.error();
      return;
    }
    std::int64_t to = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      to += (i == a ? index.value() : at[i]) * strides[i];
    }
    scatterer.put(position, to);
  });
  return status;
}

Result<Outputs> scatter_nd_shape(const Call& call) {
  TESSERA_TRY(const NdView view, view_nd(call, 0));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 2));
  Shape expected(call.dims(1).begin(), call.dims(1).end() - 1);
  expected.insert(expected.end(), call.dims(0).begin() + view.depth, call.dims(0).end());
  if (call.dims(2) != expected) {
    return invalid(fmt::format("updates of shape {}, {} is needed", shape_text(call.dims(2)),
                               shape_text(expected)));
  }
  return one_output(call.format(0), call.dims(0));
}

Status scatter_nd(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const NdView view, view_nd(call, 0));
  outputs[0].bytes = call.tensor(0).bytes;
  const Reader<std::int64_t> indices(call.tensor(1));
  const Scatterer scatterer(call, call.tensor(2), outputs[0]);
  for (std::int64_t tuple = 0; tuple < view.tuples; ++tuple) {
    TESSERA_TRY(const std::int64_t to, nd_offset(view, indices, tuple));
    for (std::int64_t i = 0; i < view.slice; ++i) scatterer.put(tuple * view.slice + i, to + i);
  }
  return {};
}

Result<Outputs> where_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_format(0, Format::kBool));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(1, 2));
  TESSERA_TRY(const Shape values, broadcast_shapes(call.dims(1), call.dims(2)));
  TESSERA_TRY(Shape dims, broadcast_shapes(call.dims(0), values));
  return one_output(call.format(1), std::move(dims));
}

Status where(const Call& call, std::vector<Tensor>& outputs) {
  const Shape& dims = outputs[0].dims;
  const Reader<std::int64_t> condition(call.tensor(0));
  const Copier yes(call.tensor(1), outputs[0]);
  const Copier no(call.tensor(2), outputs[0]);
  walk<3>(dims,
          {broadcast_strides(call.dims(0), dims), broadcast_strides(call.dims(1), dims),
           broadcast_strides(call.dims(2), dims)},
          [&](std::int64_t position, const auto& offsets) {
            if (condition[offsets[0]] != 0) {
              yes.copy(offsets[1], position);
            } else {
              no.copy(offsets[2], position);
            }
          });
  return {};
}

// --- Shapes that depend on the data --------------------------------------------------------------

Status compress(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_RETURN_IF_ERROR(call.require_format(1, Format::kBool));
  if (call.rank(1) != 1) return invalid("the condition is not a vector");
  const bool flat = !call.has_attribute("axis");
  AxisView view{1, element_count(call.dims(0)), 1};
  std::int64_t axis = 0;
  if (!flat) {
    TESSERA_TRY(axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
    view = view_axis(call.dims(0), axis);
  }
  const Reader<std::int64_t> condition(call.tensor(1));
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < call.dims(1)[0]; ++i) {
    if (condition[i] == 0) continue;
    if (i >= view.length) {
      return invalid(fmt::format("the condition keeps position {} of {}", i, view.length));
    }
    kept.push_back(i);
  }
  const auto count = static_cast<std::int64_t>(kept.size());
  Shape dims = flat ? Shape{count} : call.dims(0);
  if (!flat) dims[static_cast<std::size_t>(axis)] = count;
  outputs.push_back(Tensor::zeros(call.format(0), dims));
  const Copier copier(call.tensor(0), outputs[0]);
  for (std::int64_t outer = 0; view.inner > 0 && outer < view.outer; ++outer) {
    for (std::int64_t i = 0; i < count; ++i) {
      copier.copy((outer * view.length + kept[static_cast<std::size_t>(i)]) * view.inner,
                  (outer * count + i) * view.inner, view.inner);
    }
  }
  return {};
}

Status non_zero(const Call& call, std::vector<Tensor>& outputs) {
  const Reader<double> values(call.tensor(0));
  // A scalar counts as a vector of one element.
  const Shape dims = call.rank(0) == 0 ? Shape{1} : call.dims(0);
  std::vector<std::vector<std::int64_t>> found(dims.size());
  walk_indices(dims, [&](std::int64_t position, const auto& at) {
    if (values[position] == 0.0) return;
    for (std::size_t axis = 0; axis < at.size(); ++axis) found[axis].push_back(at[axis]);
  });
  const Shape shape{static_cast<std::int64_t>(dims.size()),
                    static_cast<std::int64_t>(found[0].size())};
  TESSERA_RETURN_IF_ERROR(check_size(Format::kI64, shape));
  outputs.push_back(Tensor::zeros(Format::kI64, shape));
  auto to = outputs[0].as<std::int64_t>().begin();
  for (const auto& row : found) to = std::copy(row.begin(), row.end(), to);
  return {};
}

namespace {

// Compares slices `a` and `b` along the view's axis, element by element.
template <typename W>
int compare_slices(const std::vector<W>& values, const AxisView& view, std::int64_t a,
                   std::int64_t b) {
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t inner = 0; inner < view.inner; ++inner) {
      const W left =
          values[static_cast<std::size_t>((outer * view.length + a) * view.inner + inner)];
      const W right =
          values[static_cast<std::size_t>((outer * view.length + b) * view.inner + inner)];
      if (is_below(left, right)) return -1;
      if (is_below(right, left)) return 1;
    }
  }
  return 0;
}

struct UniqueSlices {
  std::vector<std::int64_t> first;    // for each distinct slice, where it stands first
  std::vector<std::int64_t> inverse;  // for each slice, which distinct one it is
  std::vector<std::int64_t> counts;
};

template <typename W>
UniqueSlices find_unique(const Tensor& tensor, const AxisView& view, bool sorted) {
  const std::vector<W> values = load<W>(tensor);
  std::vector<std::int64_t> order(static_cast<std::size_t>(view.length));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return compare_slices(values, view, a, b) < 0;
  });
  UniqueSlices unique;
  std::vector<std::int64_t> group(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare_slices(values, view, order[i - 1], order[i]) != 0) {
      unique.first.push_back(order[i]);
      unique.counts.push_back(0);
    }
    ++unique.counts.back();
    group[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(unique.first.size()) - 1;
  }
  if (!sorted) {
    std::vector<std::int64_t> by_place(unique.first.size());
    std::iota(by_place.begin(), by_place.end(), 0);
    std::sort(by_place.begin(), by_place.end(), [&](std::int64_t a, std::int64_t b) {
      return unique.first[static_cast<std::size_t>(a)] < unique.first[static_cast<std::size_t>(b)];
    });
    UniqueSlices again;
    std::vector<std::int64_t> rank(by_place.size());
    for (std::size_t i = 0; i < by_place.size(); ++i) {
      const auto old = static_cast<std::size_t>(by_place[i]);
      again.first.push_back(unique.first[old]);
      again.counts.push_back(unique.counts[old]);
      rank[old] = static_cast<std::int64_t>(i);
    }
    for (std::int64_t& g : group) g = rank[static_cast<std::size_t>(g)];
    unique = std::move(again);
  }
  unique.inverse = std::move(group);
  return unique;
}

}  // namespace

Status unique(const Call& call, std::vector<Tensor>& outputs) {
  const bool flat = !call.has_attribute("axis");
  AxisView view{1, element_count(call.dims(0)), 1};
  std::int64_t axis = 0;
  if (!flat) {
    TESSERA_TRY(axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
    view = view_axis(call.dims(0), axis);
  }
  const bool sorted = call.attribute("sorted", 1) != 0;
  const UniqueSlices found = with_working_type(
      call.format(0), [&]<typename W>() { return find_unique<W>(call.tensor(0), view, sorted); });
  const auto count = static_cast<std::int64_t>(found.first.size());
  Shape dims = flat ? Shape{count} : call.dims(0);
  if (!flat) dims[static_cast<std::size_t>(axis)] = count;
  outputs.push_back(Tensor::zeros(call.format(0), dims));
  const Copier copier(call.tensor(0), outputs[0]);
  for (std::int64_t outer = 0; view.inner > 0 && outer < view.outer; ++outer) {
    for (std::int64_t i = 0; i < count; ++i) {
      copier.copy((outer * view.length + found.first[static_cast<std::size_t>(i)]) * view.inner,
                  (outer * count + i) * view.inner, view.inner);
    }
  }
  outputs.push_back(integer_vector(found.first));
  outputs.push_back(integer_vector(found.inverse));
  outputs.push_back(integer_vector(found.counts));
  return {};
}

}  // namespace tessera::model::ops
