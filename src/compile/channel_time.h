// The time of a memory channel, or of several as one: busy spans, of which each transfer takes what is
// free from its request on.
#pragma once

#include <map>

#include "base/quantity.h"

namespace tessera::compile {

class ChannelTime {
 public:
  void clear() { busy_.clear(); }

  // The end of `cycles` of transfer that are asked for at `from`.
  Cycles take(Cycles from, Cycles cycles);
  // From `at` on: when it is free; `at` where it is free then.
  Cycles busy_until(Cycles at) const;
  bool empty() const { return busy_.empty(); }

 private:
  void put(Cycles first, Cycles last);

  std::map<Cycles, Cycles> busy_;  // begin and end of spans that do not touch
};

}  // namespace tessera::compile
