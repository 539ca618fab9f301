// Which rows and columns of its input an operation with a window reads.
#pragma once

#include <cstdint>

#include "isa/descriptor.h"

namespace tessera::isa {

// Input rows that output rows [rows.first, rows.last) of a product or a pooling read, clipped to
// the input's extent of `input_rows`.
RowRange product_rows_read(const ProductConfig& config, std::int64_t input_rows, RowRange rows);
RowRange pool_rows_read(const PoolConfig& config, std::int64_t input_rows, RowRange rows);
// And columns.
RowRange product_columns_read(const ProductConfig& config, std::int64_t input_columns,
                              RowRange columns);
RowRange pool_columns_read(const PoolConfig& config, std::int64_t input_columns, RowRange columns);

}  // namespace tessera::isa
