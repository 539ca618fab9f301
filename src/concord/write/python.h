// What of a Python file is not its library's: the tables, the file of weights, one statement an
// operation. Internal to src/concord.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "concord/write/schedule.h"

namespace tessera::concord {

// A Python file, and the file of weights that it looks for beside itself.
struct PythonModule {
  std::string text;
  std::vector<std::byte> weights;
};

// NumPy's name of the format.
const char* numpy_name(Format format);

// "(1, 2)", "(1,)", "()".
std::string python_tuple(const std::vector<std::int64_t>& numbers);

struct PythonDialect {
  std::string_view target;   // "PyTorch"
  std::string_view runtime;  // what the file begins with
  std::string_view head;     // the class and its constructor
  // The operation as an expression over the operands' names; "" where a later one includes it.
  std::function<std::string(const Operation&, const std::vector<std::string>&)> expression;
  // Row number `turn` of a tensor, and a list of rows as a tensor; "{}" stands for it.
  std::string_view row, stack;
};

// A name of a value within a method; constants are the module's attributes.
class PythonNames {
 public:
  explicit PythonNames(const Schedule& schedule, std::size_t values);
  std::string of(ValueId id) const;
  std::vector<std::string> of(const std::vector<ValueId>& ids) const;

 private:
  Table<ValueId, bool> kept_;  // as attributes
};

// An error names a host node or a format that the target has not.
Status check_python(const Software& software, std::string_view target);
PythonModule write_python(const Software& software, const std::string& weights_name,
                          const PythonDialect& dialect);

}  // namespace tessera::concord
