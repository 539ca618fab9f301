#include "compile/channel_time.h"

#include <algorithm>
#include <iterator>

namespace tessera::compile {

Cycles ChannelTime::take(Cycles from, Cycles cycles) {
  Cycles at = from;
  auto next = busy_.upper_bound(from);
  if (next != busy_.begin()) {
    const auto before = std::prev(next);
    at = std::max(at, before->second);
  }
  Cycles first = at;
  while (cycles > 0) {
    const Cycles room = next == busy_.end() ? cycles : std::min(cycles, next->first - at);
    at += room;
    cycles -= room;
    if (cycles == 0) break;
    // The gap is full: this span and the one behind it become one.
    const Cycles behind = next->second;
    put(first, at);
    at = behind;
    first = at;
    next = busy_.upper_bound(at);
  }
  put(first, at);
  return at;
}

Cycles ChannelTime::busy_until(Cycles at) const {
  const auto next = busy_.upper_bound(at);
  return next == busy_.begin() ? at : std::max(at, std::prev(next)->second);
}

void ChannelTime::put(Cycles first, Cycles last) {
  if (last <= first) return;
  auto it = busy_.lower_bound(first);
  if (it != busy_.begin() && std::prev(it)->second >= first) {
    --it;
    first = it->first;
  }
  while (it != busy_.end() && it->first <= last) {
    last = std::max(last, it->second);
    it = busy_.erase(it);
  }
  busy_.emplace(first, last);
}

}  // namespace tessera::compile
