#include "arith/kernels/product_workspace.h"

#include <utility>

namespace tessera {

std::shared_ptr<ProductWorkspace> make_product_workspace() {
  return std::make_shared<ProductWorkspace>();
}

void begin_row_pass(ProductWorkspace& workspace) {
  workspace.rows_owner = nullptr;
  workspace.keep_rows = true;
}

void end_row_pass(ProductWorkspace& workspace) {
  workspace.rows_owner = nullptr;
  workspace.keep_rows = false;
}

arith::StickyFlags take_flags(ProductWorkspace& workspace) {
  return std::exchange(workspace.flags, {});
}

std::int64_t take_wide_elements(ProductWorkspace& workspace) {
  return std::exchange(workspace.wide_elements, 0);
}

}  // namespace tessera
