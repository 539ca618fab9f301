#include "arith/kernels/tile/matrix_tiles.h"

#include <atomic>

#include "arith/kernels/tile/detection.h"
#include "arith/vector_targets.h"
// The sets left out are named in front of Highway.
#include <hwy/targets.h>

namespace tessera::kernels {
namespace {

std::atomic<bool> left_out = false;

std::int64_t detected() {
  static const std::int64_t sets = tiles::detect();
  return sets;
}

// In the order of Highway's choice among `sets`, or among those of the processor: the best first.
std::size_t place_of(std::int64_t sets) {
  hwy::ChosenTarget choice;
  choice.Update(sets);
  return choice.GetIndex();
}
std::size_t chosen_place() {
  hwy::ChosenTarget& choice = hwy::GetChosenTarget();
  if (!choice.IsInitialized()) choice.Update(hwy::SupportedTargets());
  return choice.GetIndex();
}

}  // namespace

namespace tiles {

bool are_there() {
  return (detected() & HWY_TARGETS) != 0 && !left_out.load(std::memory_order_relaxed);
}
void leave_out() { left_out.store(true); }

}  // namespace tiles

bool has_matrix_tiles() {
  static const std::size_t least = place_of(detected());
  return tiles::are_there() && chosen_place() <= least;
}

}  // namespace tessera::kernels
