#include "arith/operation.h"

#include <array>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, kBinaryFunctionCount> kBinaryNames = {
    "add",   "subtract", "multiply", "divide",        "maximum", "minimum", "power",
    "prelu", "equal",    "less",     "less_or_equal", "when",    "unless"};

constexpr std::array<std::string_view, kReduceFunctionCount> kReduceNames = {
    "sum",     "mean",         "maximum",    "minimum",
    "product", "sum_absolute", "sum_square", "root_sum_square"};

constexpr std::array<std::string_view, kPoolFunctionCount> kPoolNames = {"maximum", "minimum",
                                                                         "average", "median"};

template <typename Enum, std::size_t kCount>
std::string_view name_of(const std::array<std::string_view, kCount>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  TESSERA_CHECK(index < kCount, "function {} does not exist; there are {}", index, kCount);
  return names[index];
}

template <typename Enum, std::size_t kCount>
std::optional<Enum> find_name(const std::array<std::string_view, kCount>& names,
                              std::string_view name) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view binary_function_name(BinaryFunction function) {
  return name_of(kBinaryNames, function);
}
std::optional<BinaryFunction> binary_function_from_name(std::string_view name) {
  return find_name<BinaryFunction>(kBinaryNames, name);
}

std::string_view reduce_function_name(ReduceFunction function) {
  return name_of(kReduceNames, function);
}
std::optional<ReduceFunction> reduce_function_from_name(std::string_view name) {
  return find_name<ReduceFunction>(kReduceNames, name);
}

std::string_view pool_function_name(PoolFunction function) { return name_of(kPoolNames, function); }
std::optional<PoolFunction> pool_function_from_name(std::string_view name) {
  return find_name<PoolFunction>(kPoolNames, name);
}

}  // namespace tessera
