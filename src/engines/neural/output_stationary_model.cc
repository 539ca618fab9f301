#include "engines/neural/output_stationary_model.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::engines {

OutputStationaryModel::OutputStationaryModel(const Shape& shape)
    : shape_(shape), elements_(static_cast<std::size_t>(shape.rows * shape.columns)) {}

void OutputStationaryModel::run(const std::vector<OutputFold>& folds) {
  folds_ = &folds;
  std::fill(elements_.begin(), elements_.end(), Element{});
  now_ = cycles_ = last_mac_ = 0;
  injected_.clear();
  fold_ = -1;
  next_step_ = fold_start_ = macs_left_ = lost_ = 0;
  leaving_.assign(static_cast<std::size_t>(shape_.columns), {});
  const auto sums = static_cast<std::int64_t>(folds.size()) * shape_.rows * shape_.columns;
  results_.assign(static_cast<std::size_t>(sums), 0);
  sums_left_ = sums;
  for (const OutputFold& fold : folds) TESSERA_CHECK(fold.depth >= 1, "a fold without values");
  while (sums_left_ > 0) {
    before_ = elements_;  // registers hold their values until the clock edge
    control();
    shift_out();
    clock_elements();
    ++now_;
  }
}

// Injects the next value of the fold, or begins the next one where the sums of the fold before it
// will be out of the way.
void OutputStationaryModel::control() {
  const auto count = static_cast<std::int64_t>(folds_->size());
  const auto depth = [&] { return (*folds_)[static_cast<std::size_t>(fold_)].depth; };
  const bool streaming = fold_ >= 0 && next_step_ < depth();
  if (!streaming && fold_ + 1 < count) {
    const Cycles out = shape_.serial ? 0 : shape_.rows * shape_.post_cycles;
    const Cycles post = shape_.serial ? (shape_.post_cycles - 1) * shape_.rows : 0;
    const bool drained = !shape_.serial || (macs_left_ == 0 && now_ > last_mac_ + post);
    if (fold_ < 0 || (drained && now_ >= fold_start_ + out)) {
      ++fold_;
      next_step_ = 0;
      fold_start_ = now_;
      macs_left_ = depth() * shape_.rows * shape_.columns;
    }
  }
  Tag tag;
  if (fold_ >= 0 && next_step_ < depth()) tag = {fold_, next_step_++};
  injected_.push_back(tag);
}

// A complete column moves down by one; the sum at the bottom leaves.
void OutputStationaryModel::shift_out() {
  for (std::int64_t c = 0; c < shape_.columns; ++c) {
    Column& column = leaving_[static_cast<std::size_t>(c)];
    if (column.left == 0 || now_ < column.next) continue;
    for (std::int64_t r = shape_.rows - 1; r >= 0; --r) {
      const Element& element = before_[static_cast<std::size_t>(r * shape_.columns + c)];
      if (element.finished_fold != column.fold) continue;
      at(r, c).finished_fold = -1;
      if (r + 1 < shape_.rows) {
        Element& below = at(r + 1, c);
        below.finished = element.finished;
        below.finished_fold = element.finished_fold;
        below.finished_row = element.finished_row;
        continue;
      }
      const std::int64_t at_result =
          (element.finished_fold * shape_.rows + element.finished_row) * shape_.columns + c;
      results_[static_cast<std::size_t>(at_result)] = element.finished;
      cycles_ = std::max(cycles_, now_ + shape_.post_cycles);
      --sums_left_;
    }
    --column.left;
    column.next = now_ + shape_.post_cycles;
  }
}

void OutputStationaryModel::clock_elements() {
  for (std::int64_t r = 0; r < shape_.rows; ++r) {
    for (std::int64_t c = 0; c < shape_.columns; ++c) clock_element(r, c);
  }
}

void OutputStationaryModel::clock_element(std::int64_t row, std::int64_t column) {
  Element& element = at(row, column);
  const auto before = [&](std::int64_t r, std::int64_t c) -> const Element& {
    return before_[static_cast<std::size_t>(r * shape_.columns + c)];
  };
  // What enters at an edge is delayed by the row or column.
  const auto entering = [&](std::int64_t delay) {
    return now_ >= delay ? injected_[static_cast<std::size_t>(now_ - delay)] : Tag{};
  };
  const Tag tag = column > 0 ? before(row, column - 1).tag : entering(row);
  const OutputFold* fold = tag.valid() ? &(*folds_)[static_cast<std::size_t>(tag.fold)] : nullptr;
  element.tag = tag;
  if (fold == nullptr) return;
  element.value =
      column > 0 ? before(row, column - 1).value : fold->left[tag.step * shape_.rows + row];
  element.weight =
      row > 0 ? before(row - 1, column).weight : fold->above[tag.step * shape_.columns + column];
  element.sum = (tag.step == 0 ? 0 : element.sum) + element.value * element.weight;
  last_mac_ = now_;
  if (tag.fold == fold_) --macs_left_;
  if (tag.step + 1 < fold->depth) return;
  if (element.finished_fold >= 0) ++lost_;
  element.finished = element.sum;
  element.finished_fold = tag.fold;
  element.finished_row = row;
  if (row + 1 == shape_.rows) {
    leaving_[static_cast<std::size_t>(column)] = {tag.fold, shape_.rows, now_ + 1};
  }
}

}  // namespace tessera::engines
