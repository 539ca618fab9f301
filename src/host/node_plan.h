// What a node's run needs and what does not change from run to run, found once: where its tensors
// lie, their surfaces, its copies. A run puts in the addresses of the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arith/kernels/surface.h"
#include "graph/graph.h"
#include "graph/surface_view.h"
#include "host/buffer_plan.h"
#include "host/dense_elementwise.h"
#include "host/dense_move.h"

namespace tessera::host {

// Where a tensor lies: a constant's bytes, or a place in a block.
struct Place {
  std::byte* constant = nullptr;
  std::size_t block = 0;
  std::int64_t offset = 0;  // bytes

  std::byte* in(std::span<std::byte* const> blocks) const {
    return constant != nullptr ? constant : blocks[block] + offset;
  }
};
Place place_of(const graph::Graph& graph, const BufferPlan& plan, graph::TensorId id);

// Of each image of a tensor as a node views it.
class PlacedSurface {
 public:
  PlacedSurface() = default;
  PlacedSurface(const graph::StridedView& view, Format format, const Place& place);

  Surface in(std::span<std::byte* const> blocks, std::int64_t image) const {
    Surface surface = surface_;
    surface.base = place_.in(blocks) + image * image_bytes_;
    return surface;
  }

 private:
  Surface surface_;
  Place place_;
  std::int64_t image_bytes_ = 0;
};

// Element-wise nodes that run together.
struct ElementwisePlan {
  std::vector<DenseElementwise::Step> steps;
  struct Buffer {
    std::size_t step = 0, index = 0;
    Place place;
  };
  std::vector<Buffer> buffers;  // those that lie in memory

  // Behind those of `other`.
  void append(const ElementwisePlan& other) {
    for (const Buffer& buffer : other.buffers) {
      buffers.push_back({steps.size() + buffer.step, buffer.index, buffer.place});
    }
    steps.insert(steps.end(), other.steps.begin(), other.steps.end());
  }
  // Addresses in these blocks.
  void place(std::span<std::byte* const> blocks) {
    for (const Buffer& buffer : buffers) {
      steps[buffer.step].buffers[buffer.index].data = buffer.place.in(blocks);
    }
  }
};
// Nodes [first, first + shapes.size()) of the graph; what they pass to each other stays out of
// memory. The shapes outlive the plan.
ElementwisePlan plan_elementwise(const graph::Graph& graph, const BufferPlan& plan,
                                 std::size_t first,
                                 std::span<const DenseElementwise* const> shapes);

struct MovePlan {
  Place output;
  std::int64_t output_bytes = 0, element_bytes = 0;
  bool has_fill = false;
  std::uint64_t fill = 0;
  struct Copy {
    BoxCopy box;
    Place source;
  };
  std::vector<Copy> copies;  // but those of what lies there already

  bool is_nothing() const { return !has_fill && copies.empty(); }
  void run(std::span<std::byte* const> blocks, ThreadPool& pool) const;
};
MovePlan plan_move(const graph::Graph& graph, const BufferPlan& plan, const graph::Node& node);

}  // namespace tessera::host
