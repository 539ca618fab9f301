// Writes the turns of a loop as one Repeat, with moves before and behind it: rows are put together
// for what is given, and taken out of what is kept. Internal to src/concord.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "concord/fold/run.h"

namespace tessera::concord {

// Values that are added to a software, and which of them are rows of others.
class FoldedValues {
 public:
  explicit FoldedValues(Software& software);

  ValueId add(Format format, Shape dims);
  ValueId add_row_of(ValueId all) { return add(value(all).format, tail(value(all).dims)); }
  ValueId numbers(const std::vector<std::int64_t>& numbers, Shape dims);  // i64, once
  ValueId constant(Tensor tensor);
  const Value& value(ValueId id) const { return software_.value(id); }

  // `row` holds the elements of row `number` of `all`, whatever its shape.
  void set_row(ValueId row, ValueId all, std::int64_t number) { rows_[row] = {all, number}; }
  // Null where it is no row.
  const std::pair<ValueId, std::int64_t>* row(ValueId id) const;
  // The tensor of which all of these are rows (invalid where there is none), and which ones.
  std::pair<ValueId, std::vector<std::int64_t>> rows(const std::vector<ValueId>& ids) const;

 private:
  static Shape tail(const Shape& dims) { return Shape(dims.begin() + 1, dims.end()); }

  Software& software_;
  std::set<std::string> names_;
  std::map<std::pair<std::vector<std::int64_t>, Shape>, ValueId> numbers_;
  std::map<ValueId, std::pair<ValueId, std::int64_t>> rows_;
};

// last_reader[v]: the last operation that reads value v, past all of them for an output, or -1.
std::vector<Operation> write_turns(const std::vector<Operation>& operations, const Run& run,
                                   const Table<ValueId, int>& last_reader, std::int32_t layer,
                                   FoldedValues& values);

}  // namespace tessera::concord
