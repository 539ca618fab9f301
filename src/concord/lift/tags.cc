#include "concord/lift/tags.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

namespace tessera::concord {
namespace {

using isa::BufferSurface;
using isa::DramAddress;
using isa::TensorSlot;

// Collects the greatest common divisor of all sizes and addresses.
class Granule {
 public:
  void add(std::int64_t bytes) { bytes_ = std::gcd(bytes_, std::abs(bytes)); }
  void add(const BufferSurface& surface) {
    add(format_bytes(surface.format));
    for (const std::uint32_t bytes :
         {surface.offset, surface.block_pitch, surface.row_pitch, surface.column_pitch}) {
      add(bytes);
    }
  }
  void add(const DramAddress& address) { add(static_cast<std::int64_t>(address.offset)); }
  void add(const std::vector<TensorSlot>& slots) {
    for (const TensorSlot& slot : slots) {
      add(format_bytes(slot.format));
      add(slot.address);
    }
  }
  void add(const isa::NeuralTask& task) {
    add(task.moving);
    add(task.output);
    if (task.dynamic) add(task.stationary);
  }
  void add(const isa::PlanarTask& task) {
    for (int i = 0; i < task.input_count; ++i) add(task.inputs[i]);
    add(task.output);
    add(task.accumulator_offset);
  }
  void add(const isa::TransferTask& task) {
    add(task.buffer);
    add(task.dram.address);
    for (const std::int64_t stride : task.dram.strides) add(stride);
  }
  void add(const isa::CopyTask& task) {
    add(task.element_bytes);
    add(task.destination);
    for (const std::int64_t stride : task.destination_strides) add(stride);
    if (task.fill) return;
    add(task.source);
    for (const std::int64_t stride : task.source_strides) add(stride);
  }
  void add(const isa::KernelTask&) {}
  void add(const isa::MessageTask& task) {
    if (task.kind == isa::MessageKind::kVector) return add(task.transfer);
    add(task.transfer.dram.address);
    add(format_bytes(task.image.format));
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 4;
};

}  // namespace

std::int64_t granule_bytes(const isa::Program& program) {
  Granule granule;
  for (const isa::TaskDescriptor& task : program.tasks) {
    std::visit([&](const auto& config) { granule.add(config); }, task.config);
  }
  granule.add(program.inputs);
  granule.add(program.outputs);
  for (const isa::Segment& segment : program.segments) {
    for (const isa::HostStep& step : segment.host_steps) {
      granule.add(step.inputs);
      granule.add(step.outputs);
    }
  }
  return granule.bytes();
}

ShadowCore::ShadowCore(const isa::Program& program, const ChipConfig& chip)
    : partitions_(chip.state_buffer.partitions),
      granule_bytes_(concord::granule_bytes(program)),
      partition_pitch_(chip.state_buffer.bytes_per_partition / granule_bytes_ + 1),
      state_buffer_(partitions_ * partition_pitch_) {
  const auto make = [&](isa::BaseIndex base, std::int64_t bytes) {
    dram_[static_cast<std::size_t>(base)] = TagMemory(bytes / granule_bytes_ + 1);
  };
  make(isa::BaseIndex::kWorkspace, program.workspace_bytes);
  make(isa::BaseIndex::kInput, program.input_bytes);
  make(isa::BaseIndex::kOutput, program.output_bytes);
}

TagSurface ShadowCore::surface(const BufferSurface& surface, std::int64_t image) {
  TagSurface view;
  view.base = state_buffer_.at(surface.offset / granule_bytes_);
  view.partitions = partitions_;
  view.partition_pitch = surface.broadcast_channels ? 0 : partition_pitch_;
  view.block_pitch = surface.broadcast_channels ? 0 : surface.block_pitch / granule_bytes_;
  view.row_pitch = surface.row_pitch / granule_bytes_;
  view.column_pitch = surface.column_pitch / granule_bytes_;
  view.row_origin = surface.broadcast_images ? 0 : image * surface.rows;
  view.ring_rows = surface.ring_rows;
  if (surface.broadcast_rows) {
    view.base += view.row_origin % view.ring_rows * view.row_pitch;
    view.row_pitch = 0;
    view.row_origin = 0;
    view.ring_rows = 1;
  }
  return view;
}

void ShadowCore::write_slot(const TensorSlot& slot, LiftedValue value) {
  const std::int64_t count = element_count(slot.dims) * granules(slot.format);
  Tag* const to = dram(slot.address);
  for (std::int64_t i = 0; i < count; ++i) to[i] = make_tag(value, static_cast<std::uint64_t>(i));
}

std::vector<Tag> ShadowCore::read_slot(const TensorSlot& slot) {
  const std::int64_t width = granules(slot.format);
  std::vector<Tag> tags(static_cast<std::size_t>(element_count(slot.dims)));
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * width;
    if (slot.address.base == isa::BaseIndex::kWeights) {
      tags[i] = load(slot.address, first * granule_bytes_);
    } else {
      tags[i] = element(dram(slot.address) + first, width);
    }
  }
  return tags;
}

Tag ShadowCore::wide_element(const Tag* at, std::int64_t granules) {
  const Tag first = at[0];
  for (std::int64_t i = 0; i < granules; ++i) {
    if (tag_value(at[i]) != tag_value(first)) return kTorn;
  }
  if (tag_value(first) == kNothing) return kUnwritten;
  if (tag_value(first) != kFill) {
    for (std::int64_t i = 1; i < granules; ++i) {
      if (at[i] != first + static_cast<Tag>(i)) return kTorn;
    }
    return tag_value(first) == kWeights || tag_granule(first) % granules == 0 ? first : kTorn;
  }
  std::uint64_t bits = 0;
  for (std::int64_t i = granules; i-- > 0;) {
    bits = bits << 8 * granule_bytes_ | static_cast<std::uint64_t>(tag_granule(at[i]));
  }
  if (granules * granule_bytes_ <= 4) return make_tag(kFill, bits);
  const auto found = std::find(long_fills_.begin(), long_fills_.end(), bits);
  const auto index = static_cast<std::uint64_t>(found - long_fills_.begin());
  if (found == long_fills_.end()) long_fills_.push_back(bits);
  return make_tag(kFill, index);
}

std::uint64_t ShadowCore::fill_bits(Tag tag, std::int64_t granules) const {
  const auto low = static_cast<std::uint64_t>(tag_granule(tag));
  if (granules * granule_bytes_ <= 4) return low;
  return long_fills_[static_cast<std::size_t>(low)];
}

}  // namespace tessera::concord
