// Graph nodes as kernel configurations.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "arith/kernels/planar/planar.h"
#include "arith/kernels/product.h"
#include "graph/graph.h"
#include "graph/surface_view.h"

namespace tessera::host {

// Output channels from `first_channel` on of a node's product.
struct ProductPart {
  std::shared_ptr<const Product> product;  // shared by the threads
  std::int64_t first_channel = 0;
  // Of a channel-wise product: the input channels it takes; 0: all.
  std::int64_t first_input = 0;
  std::int64_t inputs = 0;
};
// The node's weights quantised and packed; empty for a dynamic matrix product and for other nodes.
// Where the output has too few pixels to keep `threads` busy, its channels are cut into parts;
// those of a channel-wise product always are.
std::vector<ProductPart> prepare_product(const graph::Graph& graph, const graph::Node& node,
                                         int threads);
// Whether two products with constant operands have the same ones and do the same with them, so that the parts of one
// are those of the other: the steps of a recurrent network.
bool have_same_parts(const graph::Graph& graph, const graph::Node& a, const graph::Node& b);
// A dynamic matrix product, one per image; empty for other nodes.
std::vector<std::shared_ptr<DynamicProduct>> prepare_dynamic_products(const graph::Graph& graph,
                                                                      const graph::Node& node,
                                                                      std::int64_t images);
// Whether a matrix product's work is best cut into strips of 16 pixels.
bool runs_in_strips(const graph::Graph& graph, const graph::Node& node);

// How many ranges the pixels of a product in `parts` are cut into for `threads`.
std::int64_t pixel_ranges(std::int64_t panels, std::int64_t parts, int threads);
// The same for a product that runs in strips.
std::int64_t strip_ranges(std::int64_t strips, std::int64_t parts, int threads);
// What a range is counted in: 64 pixels, or 4 strips of 16 pixels of an output row.
std::int64_t panels_of(std::int64_t rows, std::int64_t columns);
// The surface as one row of pixels, where they lie evenly; nothing elsewhere.
std::optional<Surface> one_row(const Surface& surface);
// Whether output pixel i needs input pixel i and no other.
bool is_pointwise(const graph::Graph& graph, const graph::Node& node);

PoolConfig pool_config(const graph::PoolAttributes& attributes);
ElementwiseConfig elementwise_config(const graph::ElementwiseAttributes& attributes);
// Which axes are reduced follows from the output's view.
ReduceConfig reduce_config(const graph::ReduceAttributes& attributes,
                           const graph::NodeViews& views);

}  // namespace tessera::host
