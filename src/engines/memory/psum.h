// PSUM: what leaves the bottom of the array is added up here, one partition per array column.
//
//   bank b:   partition 0 | partition 1 | ... | partition C-1      row n = moving column n
//
// Each cycle every partition may take one sum, and the post-processor may read one row of a bank. A
// sum written to a place that still waits for the post-processor is lost: lost() counts them.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::engines {

class Psum {
 public:
  Psum(std::int64_t banks, std::int64_t rows, std::int64_t partitions)
      : rows_(rows),
        partitions_(partitions),
        places_(static_cast<std::size_t>(banks * rows * partitions)) {}

  struct Place {
    std::int64_t bank = 0, row = 0, partition = 0;
  };
  // Adds `sum`, or overwrites with it if it is the chain's first; `last` completes the place.
  void add(const Place& place, std::int64_t sum, bool first, bool last) {
    Cell& cell = at(place);
    if (cell.complete) ++lost_;
    cell.value = first ? sum : cell.value + sum;
    cell.complete = last;
  }
  bool row_complete(std::int64_t bank, std::int64_t row) {
    for (std::int64_t p = 0; p < partitions_; ++p) {
      if (!at({bank, row, p}).complete) return false;
    }
    return true;
  }
  // The post-processor takes one value of a row.
  std::int64_t take(const Place& place) {
    Cell& cell = at(place);
    cell.complete = false;
    return cell.value;
  }
  std::int64_t value(const Place& place) { return at(place).value; }
  std::int64_t lost() const { return lost_; }

 private:
  struct Cell {
    std::int64_t value = 0;
    bool complete = false;
  };
  Cell& at(const Place& place) {
    return places_[static_cast<std::size_t>((place.bank * rows_ + place.row) * partitions_ +
                                            place.partition)];
  }

  std::int64_t rows_, partitions_;
  std::vector<Cell> places_;
  std::int64_t lost_ = 0;
};

}  // namespace tessera::engines
