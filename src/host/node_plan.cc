#include "host/node_plan.h"

#include <algorithm>
#include <array>

#include "host/product_node.h"

namespace tessera::host {

using graph::Graph;
using graph::Node;
using graph::TensorId;

Place place_of(const Graph& graph, const BufferPlan& plan, TensorId id) {
  const graph::TensorInfo& info = graph.tensor(id);
  // One pointer type for what is read and what is written.
  if (info.constant) return {.constant = const_cast<std::byte*>(info.constant->bytes.data())};
  return {.block = static_cast<std::size_t>(plan.block_of_tensor[id]),
          .offset = plan.offset_of_tensor[id]};
}

PlacedSurface::PlacedSurface(const graph::StridedView& view, Format format, const Place& place)
    : place_(place) {
  const std::int64_t size = format_bytes(format);
  image_bytes_ = view.strides[0] * size;
  surface_.format = format;
  surface_.channels = view.extents[1];
  surface_.rows = view.extents[2];
  surface_.columns = view.extents[3];
  surface_.partitions = std::max<std::int64_t>(1, view.extents[1]);
  surface_.partition_pitch = view.strides[1] * size;
  surface_.row_pitch = view.strides[2] * size;
  surface_.column_pitch = view.strides[3] * size;
  surface_.ring_rows = std::max<std::int64_t>(1, view.extents[2]);
}

ElementwisePlan plan_elementwise(const Graph& graph, const BufferPlan& plan, std::size_t first,
                                 std::span<const DenseElementwise* const> shapes) {
  ElementwisePlan result;
  TensorId passed;
  for (std::size_t step = 0; step < shapes.size(); ++step) {
    const Node& node = graph.nodes[first + step];
    std::array<DenseElementwise::Buffer, DenseElementwise::kOperandsMax + 1> buffers = {};
    std::size_t count = 0;
    const auto add = [&](TensorId id, bool inside) {
      if (!inside) result.buffers.push_back({step, count, place_of(graph, plan, id)});
      buffers[count++] = {.format = graph.tensor(id).format};
    };
    for (const TensorId id : node.inputs) add(id, step > 0 && id == passed);
    passed = node.outputs[0];
    add(passed, step + 1 < shapes.size());
    result.steps.push_back(
        {shapes[step], elementwise_config(node.as<graph::ElementwiseAttributes>()), buffers});
  }
  return result;
}

MovePlan plan_move(const Graph& graph, const BufferPlan& plan, const Node& node) {
  MovePlan result;
  const auto& move = node.as<graph::MoveAttributes>();
  const graph::TensorInfo& output = graph.tensor(node.outputs[0]);
  result.output = place_of(graph, plan, node.outputs[0]);
  result.element_bytes = format_bytes(output.format);
  result.output_bytes = element_count(output.dims) * result.element_bytes;
  result.has_fill = move.has_fill;
  result.fill = move.fill;
  for (const graph::CopyBox& box : move.copies) {
    if (lies_in_place(graph, plan, node, box)) continue;
    result.copies.push_back(
        {BoxCopy(box, result.element_bytes),
         place_of(graph, plan, node.inputs[static_cast<std::size_t>(box.input)])});
  }
  return result;
}

void MovePlan::run(std::span<std::byte* const> blocks, ThreadPool& pool) const {
  if (is_nothing()) return;
  std::byte* const out = output.in(blocks);
  if (has_fill) fill_elements(out, output_bytes / element_bytes, element_bytes, fill);
  for (const Copy& copy : copies) copy.box.run(copy.source.in(blocks), out, pool);
}

}  // namespace tessera::host
