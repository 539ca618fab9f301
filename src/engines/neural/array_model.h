// The array register by register: the oracle of the closed formulas in arch/cost.h.
//
//            weights come down, a row per cycle, column c delayed by c
//                 ▼      ▼      ▼
//   x[0] ─────► PE ──► PE ──► PE        PE: weight, shadow weight, weight in transit, input and
//   x[1] ─ z ─► PE ──► PE ──► PE            partial sum; each cycle
//   x[2] ─2z ─► PE ──► PE ──► PE            sum   <- sum above + weight * input from the left
//                                           input <- input from the left
//                ▼      ▼      ▼
//              PSUM 0  PSUM 1  PSUM 2   ─► post-processor, a moving column in post_cycles
//
// Row r of the input is delayed by r cycles, so the wave front is a diagonal. The first column of a
// pass carries a flag that makes each PE take its shadow weight as it goes by; the next tile's
// weights come down behind that flag, and each PE keeps the one that is meant for its row.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.h"
#include "engines/memory/psum.h"

namespace tessera::engines {

// One tile of weights and the moving columns that meet it.
struct ArrayPass {
  const std::int64_t* weights = nullptr;  // [R][C]
  const std::int64_t* columns = nullptr;  // [column_count][R]
  std::int64_t column_count = 0;
  std::int64_t bank = 0;
  bool first_of_chain = true;  // overwrite the bank
  bool last_of_chain = true;   // results go to the post-processor
  // At least from its first moving column to that of the next pass, beyond the rule of the banks.
  Cycles hold = 0;
};

// A sum that reached PSUM.
struct PsumArrival {
  Cycles cycle = 0;
  std::int64_t bank = 0, row = 0, partition = 0;
  std::int64_t sum = 0;
};

class ArrayModel {
 public:
  struct Shape {
    std::int64_t rows = 4, columns = 4;  // R, C
    std::int64_t banks = 2;
    std::int64_t bank_columns = 16;
    std::int64_t post_cycles = 1;  // the post-processor takes a moving column in
    bool serial = false;  // a pass's weights load when the pass before it has left the array
  };
  explicit ArrayModel(const Shape& shape);

  // Runs the passes from an empty array with no weights in it. Afterwards cycles() says how many
  // cycles passed until the post-processor held the last sums: with post_cycles = 1, until the last
  // sum was in PSUM.
  void run(const std::vector<ArrayPass>& passes);

  Cycles cycles() const { return now_; }
  // The cycle, counted from 0, of the last multiply-accumulate.
  Cycles last_mac() const { return last_mac_; }
  const std::vector<PsumArrival>& arrivals() const { return arrivals_; }
  // Results in the order in which the post-processor took them, C a moving column.
  const std::vector<std::int64_t>& results() const { return results_; }
  // Sums that overwrote results not yet taken; 0 unless the control is wrong.
  std::int64_t lost() const { return psum_.lost(); }

 private:
  // What travels with a value: to which pass and moving column it belongs.
  struct Tag {
    std::int64_t pass = -1;
    std::int64_t column = 0;
    bool valid() const { return pass >= 0; }
  };
  struct Element {
    std::int64_t weight = 0, shadow = 0, input = 0, sum = 0;
    Tag tag;  // of input and sum
    std::int64_t transit = 0;
    std::int64_t transit_row = -1;  // the row the weight in transit is meant for; -1: none
  };
  Element& at(std::int64_t row, std::int64_t column) {
    return elements_[static_cast<std::size_t>(row * shape_.columns + column)];
  }
  void control();
  Cycles drain_wait() const;
  void collect();
  void post_process(Cycles now);
  void clock_elements();
  void clock_weights();
  // The weight that enters column `column` at the top in this cycle.
  void feed_weight(std::int64_t column, Element& top) const;

  const Shape shape_;
  std::vector<Element> elements_, before_;
  Psum psum_;
  const std::vector<ArrayPass>* passes_ = nullptr;
  Cycles now_ = 0, last_mac_ = 0;
  // Moving side: injected_[t] is what entered row 0 at cycle t.
  std::vector<Tag> injected_;
  std::int64_t pass_ = -1;  // being streamed
  std::int64_t next_column_ = 0;
  Cycles pass_start_ = 0;
  // Weight side: tile i comes down from cycle load_starts_[i] on.
  std::vector<Cycles> load_starts_;
  std::int64_t macs_left_ = 0;  // of the pass being streamed
  std::int64_t sums_left_ = 0;
  // Post-processor: rows of complete chains, in order.
  std::int64_t post_pass_ = 0, post_row_ = 0;
  Cycles post_free_ = 0;  // takes its next column from here on
  std::vector<PsumArrival> arrivals_;
  std::vector<std::int64_t> results_;
};

}  // namespace tessera::engines
