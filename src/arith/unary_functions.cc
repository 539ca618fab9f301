#include "arith/unary_functions.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

// The first row for which `holds`; nullptr if there is none.
template <typename Predicate>
const UnaryRow* find_row(Predicate holds) {
  const auto* found = std::find_if(kUnaryRows.begin(), kUnaryRows.end(), holds);
  return found == kUnaryRows.end() ? nullptr : found;
}

}  // namespace

const UnaryRow& unary_row(UnaryFunction function) {
  const auto index = static_cast<std::size_t>(function);
  TESSERA_CHECK(index < kUnaryRows.size(), "function {} does not exist; there are {}", index,
                kUnaryRows.size());
  return kUnaryRows[index];
}

std::string_view unary_function_name(UnaryFunction function) { return unary_row(function).name; }

std::optional<UnaryFunction> unary_function_from_name(std::string_view name) {
  const UnaryRow* const row = find_row([&](const UnaryRow& each) { return each.name == name; });
  return row == nullptr ? std::nullopt : std::optional(row->function);
}

const UnaryRow* find_unary_operator(std::string_view op_type) {
  return find_row(
      [&](const UnaryRow& row) { return !row.onnx.name.empty() && row.onnx.name == op_type; });
}

const UnaryRow* find_recurrent_function(std::string_view name) {
  return find_row([&](const UnaryRow& row) {
    return row.onnx.recurrent && equal_in_any_case(row.onnx.name, name);
  });
}

}  // namespace tessera
