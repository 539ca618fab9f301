#include "isa/rows_read.h"

#include <algorithm>

namespace tessera::isa {
namespace {

// Rows an operation with a window reads: first tap of the first row to last tap of the last row,
// in coordinates of the dilated input.
RowRange window_rows(std::int64_t low, std::int64_t high, std::int64_t input_dilation,
                     std::int64_t input_rows) {
  if (high < 0) return {0, 0};
  const std::int64_t first = low > 0 ? ceil_div(low, input_dilation) : 0;
  const std::int64_t last = std::min(input_rows, high / input_dilation + 1);
  return {std::min(first, last), last};
}

}  // namespace

RowRange product_rows_read(const ProductConfig& config, std::int64_t input_rows, RowRange rows) {
  if (rows.last <= rows.first) return {0, 0};
  return window_rows(rows.first * config.stride_h - config.pad_top,
                     (rows.last - 1) * config.stride_h - config.pad_top +
                         (config.kernel_h - 1) * config.dilation_h,
                     config.input_dilation_h, input_rows);
}

RowRange product_columns_read(const ProductConfig& config, std::int64_t input_columns,
                              RowRange columns) {
  if (columns.last <= columns.first) return {0, 0};
  return window_rows(columns.first * config.stride_w - config.pad_left,
                     (columns.last - 1) * config.stride_w - config.pad_left +
                         (config.kernel_w - 1) * config.dilation_w,
                     config.input_dilation_w, input_columns);
}

RowRange pool_columns_read(const PoolConfig& config, std::int64_t input_columns, RowRange columns) {
  if (columns.last <= columns.first) return {0, 0};
  return window_rows(columns.first * config.stride_w - config.pad_left,
                     (columns.last - 1) * config.stride_w - config.pad_left +
                         (config.window_w - 1) * config.dilation_w,
                     1, input_columns);
}

RowRange pool_rows_read(const PoolConfig& config, std::int64_t input_rows, RowRange rows) {
  if (rows.last <= rows.first) return {0, 0};
  return window_rows(rows.first * config.stride_h - config.pad_top,
                     (rows.last - 1) * config.stride_h - config.pad_top +
                         (config.window_h - 1) * config.dilation_h,
                     1, input_rows);
}

}  // namespace tessera::isa
