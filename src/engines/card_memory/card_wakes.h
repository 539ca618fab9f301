// When each box of the card's memory next has something to do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/quantity.h"

namespace tessera::engines {

class CardWakes {
 public:
  explicit CardWakes(std::size_t boxes) : at_(boxes, kNever) {}
  void reset() { std::fill(at_.begin(), at_.end(), kNever); }
  // `box` is stepped at `when`, or earlier if something else wakes it.
  void wake(std::size_t box, Cycles when) { at_[box] = std::min(at_[box], when); }
  // Whether the box is due at `now`; then it is no more.
  bool take_due(std::size_t box, Cycles now) {
    if (at_[box] > now) return false;
    at_[box] = kNever;
    return true;
  }
  Cycles earliest() const { return *std::min_element(at_.begin(), at_.end()); }
  std::size_t size() const { return at_.size(); }

 private:
  std::vector<Cycles> at_;
};

}  // namespace tessera::engines
