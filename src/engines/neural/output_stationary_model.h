// The output-stationary array register by register: the oracle of its formulas in arch/cost.h.
//
//            weights come from above, column c delayed by c
//                 ▼      ▼      ▼
//   x[0] ─────► PE ──► PE ──► PE        PE: value from the left, weight from above, sum, and a
//   x[1] ─ z ─► PE ──► PE ──► PE            finished sum; each cycle
//   x[2] ─2z ─► PE ──► PE ──► PE            sum <- sum + value * weight
//                ▼      ▼      ▼
//              finished sums leave downwards ─► post-processor, a row of a column in post_cycles
//
// The last value of a fold carries a flag: the PE keeps its sum aside and begins anew. When the
// last PE of a column has done so, the column's finished sums shift down, while the next fold is
// summed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.h"

namespace tessera::engines {

// One block of R x C sums.
struct OutputFold {
  const std::int64_t* left = nullptr;   // [depth][R]
  const std::int64_t* above = nullptr;  // [depth][C]
  std::int64_t depth = 1;
};

class OutputStationaryModel {
 public:
  struct Shape {
    std::int64_t rows = 4, columns = 4;  // R, C
    std::int64_t post_cycles = 1;
    bool serial = false;  // a fold begins when the last sum of the one before is complete
  };
  explicit OutputStationaryModel(const Shape& shape);

  void run(const std::vector<OutputFold>& folds);

  // Until the last sum is in the post-processor.
  Cycles cycles() const { return cycles_; }
  // The cycle, counted from 0, of the last multiply-accumulate.
  Cycles last_mac() const { return last_mac_; }
  // [fold][R][C].
  const std::vector<std::int64_t>& results() const { return results_; }
  // Finished sums that were overwritten before they left; 0 unless the control is wrong.
  std::int64_t lost() const { return lost_; }

 private:
  struct Tag {
    std::int64_t fold = -1;
    std::int64_t step = 0;
    bool valid() const { return fold >= 0; }
  };
  struct Element {
    std::int64_t value = 0, weight = 0, sum = 0;
    Tag tag;
    std::int64_t finished = 0;
    std::int64_t finished_fold = -1, finished_row = -1;  // -1: none
  };
  Element& at(std::int64_t row, std::int64_t column) {
    return elements_[static_cast<std::size_t>(row * shape_.columns + column)];
  }
  void control();
  void clock_elements();
  void clock_element(std::int64_t row, std::int64_t column);
  void shift_out();

  const Shape shape_;
  std::vector<Element> elements_, before_;
  const std::vector<OutputFold>* folds_ = nullptr;
  Cycles now_ = 0, cycles_ = 0, last_mac_ = 0;
  std::vector<Tag> injected_;  // injected_[t] is what entered PE (0, 0) at cycle t
  std::int64_t fold_ = -1, next_step_ = 0;
  Cycles fold_start_ = 0;
  std::int64_t macs_left_ = 0;  // of the fold begun last
  std::int64_t sums_left_ = 0, lost_ = 0;
  // Columns whose finished sums are on their way down: of which fold, how many left, when the next.
  struct Column {
    std::int64_t fold = -1, left = 0;
    Cycles next = 0;
  };
  std::vector<Column> leaving_;
  std::vector<std::int64_t> results_;
};

}  // namespace tessera::engines
