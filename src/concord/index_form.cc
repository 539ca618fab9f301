#include "concord/index_form.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

namespace tessera::concord {
namespace {

using Along = std::vector<std::vector<std::int64_t>>;

constexpr std::int64_t kElementsMin = 2'048;
constexpr std::int64_t kSmaller = 4;  // times that the rule must be smaller than the indices
constexpr std::int64_t kBytes = 8;    // of an index

// Goes through the elements in their order with the place on each axis.
class Places {
 public:
  explicit Places(const Shape& dims) : dims_(dims), at_(dims.size(), 0) {}
  std::size_t operator[](std::size_t axis) const { return static_cast<std::size_t>(at_[axis]); }
  void next() {
    for (std::size_t axis = dims_.size(); axis-- > 0;) {
      if (++at_[axis] < dims_[axis]) return;
      at_[axis] = 0;
    }
  }

 private:
  const Shape& dims_;
  Shape at_;
};

std::int64_t sum_at(const Along& along, const Places& places) {
  std::int64_t sum = 0;
  for (std::size_t axis = 0; axis < along.size(); ++axis) sum += along[axis][places[axis]];
  return sum;
}

// Of the first element and its neighbours along each axis; whether all others follow is to be seen.
Along first_lines(std::span<const std::int64_t> values, const Shape& dims) {
  Along along;
  std::int64_t stride = static_cast<std::int64_t>(values.size());
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    stride /= dims[axis];
    std::vector<std::int64_t> line;
    for (std::int64_t i = 0; i < dims[axis]; ++i) {
      const std::int64_t value = values[static_cast<std::size_t>(i * stride)];
      line.push_back(axis == 0 ? value : value - values[0]);
    }
    along.push_back(std::move(line));
  }
  return along;
}

bool follows(const Along& along, std::span<const std::int64_t> values, const Shape& dims) {
  Places places(dims);
  for (const std::int64_t value : values) {
    if (sum_at(along, places) != value) return false;
    places.next();
  }
  return true;
}

// The numbers of the axes from the elements that are not `outside`: of an element with one number unknown, that
// follows. Places with no such element get `far`.
class Solver {
 public:
  Solver(std::span<const std::int64_t> values, const Shape& dims, std::int64_t outside)
      : values_(values), dims_(dims), outside_(outside) {
    for (const std::int64_t extent : dims) {
      along_.emplace_back(static_cast<std::size_t>(extent), 0);
      known_.emplace_back(static_cast<std::size_t>(extent), false);
    }
  }

  // False where the elements fall apart into groups that have nothing to do with each other.
  bool solve() {
    if (!begin()) return false;
    while (pass()) {
    }
    return is_connected_;
  }
  Along take(std::int64_t far) {
    for (std::size_t axis = 0; axis < along_.size(); ++axis) {
      for (std::size_t i = 0; i < along_[axis].size(); ++i) {
        if (!known_[axis][i]) along_[axis][i] = far;
      }
    }
    return std::move(along_);
  }

 private:
  bool begin() {
    Places places(dims_);
    for (const std::int64_t value : values_) {
      if (value != outside_) {
        for (std::size_t axis = 0; axis < along_.size(); ++axis) known_[axis][places[axis]] = true;
        along_[0][places[0]] = value;
        return true;
      }
      places.next();
    }
    return false;
  }
  // Whether it found a number.
  bool pass() {
    bool found = false;
    is_connected_ = true;
    Places places(dims_);
    for (const std::int64_t value : values_) {
      if (value != outside_) found |= take_one(value, places);
      places.next();
    }
    return found;
  }
  bool take_one(std::int64_t value, const Places& places) {
    std::size_t unknown = along_.size(), count = 0;
    std::int64_t rest = value;
    for (std::size_t axis = 0; axis < along_.size(); ++axis) {
      if (known_[axis][places[axis]]) {
        rest -= along_[axis][places[axis]];
      } else {
        unknown = axis;
        ++count;
      }
    }
    if (count > 1) is_connected_ = false;
    if (count != 1) return false;
    along_[unknown][places[unknown]] = rest;
    known_[unknown][places[unknown]] = true;
    return true;
  }

  const std::span<const std::int64_t> values_;
  const Shape& dims_;
  const std::int64_t outside_;
  Along along_;
  std::vector<std::vector<bool>> known_;
  bool is_connected_ = true;
};

// Of the elements, where the index is `outside`: one for each place on those axes on which it depends.
Tensor mask_of(std::span<const std::int64_t> values, const Shape& dims, std::int64_t outside) {
  Shape extents = dims;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const std::int64_t inner = std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                                               dims.end(), std::int64_t{1}, std::multiplies<>());
    const std::int64_t block = inner * dims[axis];
    bool depends = false;
    for (std::size_t i = 0; i < values.size() && !depends; ++i) {
      const auto first =
          static_cast<std::int64_t>(i) / block * block + static_cast<std::int64_t>(i) % inner;
      depends = (values[i] == outside) != (values[static_cast<std::size_t>(first)] == outside);
    }
    if (!depends) extents[axis] = 1;
  }
  Tensor mask = Tensor::zeros(Format::kBool, extents);
  Places places(dims);
  for (const std::int64_t value : values) {
    std::size_t at = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      at = at * static_cast<std::size_t>(extents[axis]) + (extents[axis] == 1 ? 0 : places[axis]);
    }
    mask.bytes[at] = std::byte{value == outside};
    places.next();
  }
  return mask;
}

enum class Fit { kNone, kBySum, kByMask };

Fit fit_of(const IndexForm& form, std::span<const std::int64_t> values, const Shape& dims) {
  Fit fit = Fit::kBySum;
  Places places(dims);
  for (const std::int64_t value : values) {
    const std::int64_t sum = sum_at(form.along, places);
    const bool is_beyond = sum < 0 || sum >= form.outside;
    if (value != form.outside && sum != value) return Fit::kNone;
    if (is_beyond != (value == form.outside)) fit = Fit::kByMask;
    places.next();
  }
  return fit;
}

bool is_small(const IndexForm& form, const Shape& dims) {
  std::int64_t bytes = std::ssize(form.mask.bytes);
  for (const std::int64_t extent : dims) bytes += extent * kBytes;
  return bytes * kSmaller < element_count(dims) * kBytes;
}

}  // namespace

std::optional<IndexForm> index_form(const Tensor& indices) {
  const Shape& dims = indices.dims;
  IndexForm form;
  if (indices.format != Format::kI64 || element_count(dims) < kElementsMin ||
      !is_small(form, dims)) {
    return std::nullopt;
  }
  const auto values = indices.as<std::int64_t>();
  form.along = first_lines(values, dims);
  if (follows(form.along, values, dims)) return form;
  form.outside = *std::ranges::max_element(values);
  Solver solver(values, dims, form.outside);
  if (!solver.solve()) return std::nullopt;
  form.along = solver.take(std::int64_t{4} * (form.outside + 1) * std::ssize(dims));
  const Fit fit = fit_of(form, values, dims);
  if (fit == Fit::kNone) return std::nullopt;
  form.outside_is = IndexForm::Outside::kBySum;
  if (fit == Fit::kByMask) {
    form.outside_is = IndexForm::Outside::kByMask;
    form.mask = mask_of(values, dims, form.outside);
    if (!is_small(form, dims)) return std::nullopt;
  }
  return form;
}

}  // namespace tessera::concord
