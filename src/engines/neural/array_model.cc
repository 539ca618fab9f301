#include "engines/neural/array_model.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::engines {

ArrayModel::ArrayModel(const Shape& shape)
    : shape_(shape),
      elements_(static_cast<std::size_t>(shape.rows * shape.columns)),
      psum_(shape.banks, shape.bank_columns, shape.columns) {}

void ArrayModel::run(const std::vector<ArrayPass>& passes) {
  passes_ = &passes;
  now_ = last_mac_ = macs_left_ = 0;
  injected_.clear();
  pass_ = -1;
  next_column_ = 0;
  load_starts_.assign(1, 0);
  post_pass_ = post_row_ = 0;
  post_free_ = 0;
  arrivals_.clear();
  results_.clear();
  sums_left_ = 0;
  for (const ArrayPass& pass : passes) {
    TESSERA_CHECK(pass.column_count >= 1 && pass.column_count <= shape_.bank_columns,
                  "{} columns, a bank holds {}", pass.column_count, shape_.bank_columns);
    sums_left_ += pass.column_count * shape_.columns;
  }
  while (sums_left_ > 0) {
    before_ = elements_;  // registers hold their values until the clock edge
    control();
    post_process(now_);
    collect();
    clock_elements();
    clock_weights();
    ++now_;
  }
  // The post-processor takes what is left; no sum arrives any more.
  for (Cycles now = now_; post_pass_ < static_cast<std::int64_t>(passes.size()); ++now) {
    post_process(now);
  }
  now_ = post_free_ - 1;  // the cycle in which it takes a column is the first of its latency
}

// What the post-processor still needs at the end of a serial chain.
Cycles ArrayModel::drain_wait() const {
  const ArrayPass& pass = (*passes_)[static_cast<std::size_t>(pass_)];
  return pass.last_of_chain ? (shape_.post_cycles - 1) * pass.column_count : 0;
}

// Injects the next moving column, or starts the next pass when its weights are in and the bank rule
// allows.
void ArrayModel::control() {
  const std::vector<ArrayPass>& passes = *passes_;
  const auto count = static_cast<std::int64_t>(passes.size());
  const auto pass_at = [&](std::int64_t i) -> const ArrayPass& {
    return passes[static_cast<std::size_t>(i)];
  };
  const bool streaming = pass_ >= 0 && next_column_ < pass_at(pass_).column_count;
  if (!streaming && pass_ + 1 < count) {
    const auto next = static_cast<std::size_t>(pass_ + 1);
    if (load_starts_.size() == next && macs_left_ == 0 && now_ > last_mac_ + drain_wait()) {
      load_starts_.push_back(now_);  // serial
    }
    const bool weights_in = load_starts_.size() > next && now_ >= load_starts_[next] + shape_.rows;
    const bool chain_ended = pass_ >= 0 && pass_at(pass_).last_of_chain;
    Cycles gap = pass_ >= 0 ? pass_at(pass_).hold : 0;
    if (chain_ended) gap = std::max<Cycles>(gap, ceil_div(shape_.columns, shape_.banks));
    if (weights_in && (pass_ < 0 || now_ >= pass_start_ + gap)) {
      ++pass_;
      next_column_ = 0;
      pass_start_ = now_;
      macs_left_ = pass_at(pass_).column_count * shape_.rows * shape_.columns;
      if (!shape_.serial) load_starts_.push_back(now_);  // the next tile follows this pass's flag
    }
  }
  Tag tag;
  if (pass_ >= 0 && next_column_ < pass_at(pass_).column_count) tag = {pass_, next_column_++};
  injected_.push_back(tag);
}

// Sums leave the bottom registers into PSUM.
void ArrayModel::collect() {
  for (std::int64_t c = 0; c < shape_.columns; ++c) {
    const Element& bottom =
        before_[static_cast<std::size_t>((shape_.rows - 1) * shape_.columns + c)];
    if (!bottom.tag.valid()) continue;
    const ArrayPass& pass = (*passes_)[static_cast<std::size_t>(bottom.tag.pass)];
    psum_.add({pass.bank, bottom.tag.column, c}, bottom.sum, pass.first_of_chain,
              pass.last_of_chain);
    arrivals_.push_back({now_, pass.bank, bottom.tag.column, c, bottom.sum});
    --sums_left_;
  }
}

// A moving column in post_cycles, in order of the chains, when all its sums came in an earlier
// cycle.
void ArrayModel::post_process(Cycles now) {
  if (now < post_free_) return;
  const auto count = static_cast<std::int64_t>(passes_->size());
  while (post_pass_ < count && !(*passes_)[static_cast<std::size_t>(post_pass_)].last_of_chain) {
    ++post_pass_;
  }
  if (post_pass_ == count) return;
  const ArrayPass& pass = (*passes_)[static_cast<std::size_t>(post_pass_)];
  if (!psum_.row_complete(pass.bank, post_row_)) return;
  for (std::int64_t c = 0; c < shape_.columns; ++c) {
    results_.push_back(psum_.take({pass.bank, post_row_, c}));
  }
  post_free_ = now + shape_.post_cycles;
  if (++post_row_ == pass.column_count) {
    post_row_ = 0;
    ++post_pass_;
  }
}

void ArrayModel::clock_elements() {
  for (std::int64_t r = 0; r < shape_.rows; ++r) {
    for (std::int64_t c = 0; c < shape_.columns; ++c) {
      Element& element = at(r, c);
      Tag tag;
      std::int64_t input = 0;
      if (c > 0) {
        const Element& left = before_[static_cast<std::size_t>(r * shape_.columns + c - 1)];
        tag = left.tag;
        input = left.input;
      } else if (now_ >= r) {
        tag = injected_[static_cast<std::size_t>(now_ - r)];
        if (tag.valid()) {
          const ArrayPass& pass = (*passes_)[static_cast<std::size_t>(tag.pass)];
          input = pass.columns[tag.column * shape_.rows + r];
        }
      }
      if (tag.valid() && tag.column == 0) element.weight = element.shadow;
      if (tag.valid() && tag.pass == pass_) --macs_left_;
      if (tag.valid()) last_mac_ = now_;
      const std::int64_t above =
          r > 0 ? before_[static_cast<std::size_t>((r - 1) * shape_.columns + c)].sum : 0;
      element.input = input;
      element.tag = tag;
      element.sum = tag.valid() ? above + element.weight * input : 0;
    }
  }
}

void ArrayModel::feed_weight(std::int64_t column, Element& top) const {
  top.transit_row = -1;
  const std::size_t loads = std::min(load_starts_.size(), passes_->size());
  for (std::size_t tile = loads; tile > 0; --tile) {
    const std::int64_t row = now_ - load_starts_[tile - 1] - column;  // column c is delayed by c
    if (row >= shape_.rows) return;
    if (row < 0) continue;
    top.transit = (*passes_)[tile - 1].weights[row * shape_.columns + column];
    top.transit_row = row;
    return;
  }
}

void ArrayModel::clock_weights() {
  for (std::int64_t c = 0; c < shape_.columns; ++c) {
    for (std::int64_t r = 0; r < shape_.rows; ++r) {
      Element& element = at(r, c);
      if (r == 0) {
        feed_weight(c, element);
      } else {
        const Element& above = before_[static_cast<std::size_t>((r - 1) * shape_.columns + c)];
        element.transit = above.transit;
        element.transit_row = above.transit_row;
      }
      if (element.transit_row == r) element.shadow = element.transit;
    }
  }
}

}  // namespace tessera::engines
