#include "concord/lift/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "arith/kernels/weights/kernel_stream.h"
#include "base/quantity.h"
#include "isa/registers.h"
#include "isa/step_order.h"

namespace tessera::concord {

using isa::KernelTask;
using isa::NeuralTask;

KernelShadow::KernelShadow(const isa::Program& program, const ChipConfig& chip)
    : program_(program),
      rows_(chip.neural.rows),
      pitch_(chip.neural.kernel_bytes_per_partition),
      bytes_(static_cast<std::size_t>(rows_ * pitch_)),
      writers_(static_cast<std::size_t>(pitch_), -1) {}

Status KernelShadow::load(isa::TaskId id) {
  const auto& task = std::get<KernelTask>(program_.tasks[id].config);
  if (task.source.base != isa::BaseIndex::kWeights) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} loads a kernel from another region than the weights; a lifted "
                             "layer has constant kernels",
                             isa::describe_task(program_, id))};
  }
  const auto source = std::span(program_.weights).subspan(task.source.offset);
  if (task.stream.compressed()) {
    TESSERA_RETURN_IF_ERROR(expand_kernel_stream(
        task.stream, source.first(task.stream.stored_bytes),
        {bytes_.data() + task.kernel_offset, pitch_, task.partitions, task.bytes_per_partition}));
  } else {
    for (std::uint32_t p = 0; p < task.partitions; ++p) {
      std::memcpy(bytes_.data() + p * pitch_ + task.kernel_offset,
                  source.data() + p * task.dram_pitch, task.bytes_per_partition);
    }
  }
  const auto number =
      loads_.try_emplace(isa::to_registers(task), static_cast<std::int64_t>(loads_.size()));
  std::fill_n(writers_.begin() + task.kernel_offset, task.bytes_per_partition,
              number.first->second);
  return {};
}

// The load that wrote all these bytes, or -1.
std::int64_t KernelShadow::writer_of(std::int64_t first, std::int64_t bytes) const {
  if (bytes == 0) return -1;
  const auto begin = writers_.begin() + first;
  return std::all_of(begin, begin + bytes, [&](std::int64_t w) { return w == *begin; }) ? *begin
                                                                                        : -1;
}

// Equal identities without a -1 mean equal operands.
std::array<std::int64_t, 6> KernelShadow::identity_of(const NeuralTask& task) const {
  const KernelImageShape& image = task.product.image;
  const std::int64_t outputs = image.groups * image.output_channels;
  const auto vector_bytes = [&](std::int64_t count, std::int64_t element) {
    return ceil_div(count, image.rows) * element;
  };
  std::array<std::int64_t, 6> id = {0, task.kernel_offset, 0, 0, 0, outputs};
  if (!task.dynamic) id[0] = writer_of(task.kernel_offset, image.bytes_per_partition());
  if (task.product.has_bias) {
    id[2] =
        writer_of(task.bias_offset, vector_bytes(outputs, format_bytes(task.product.bias_format)));
  }
  if (task.product.requantise) {
    id[3] = writer_of(task.multiplier_offset, vector_bytes(task.multiplier_count, 4));
  }
  if (task.zero_point_count > 0) {
    id[4] = writer_of(task.zero_point_offset, vector_bytes(task.zero_point_count, 4));
  }
  return id;
}

void KernelShadow::read_vector(std::int64_t offset, std::int64_t count, std::int64_t element,
                               std::byte* to) const {
  for (std::int64_t o = 0; o < count; ++o) {
    std::memcpy(to + o * element, at(o % rows_, offset + o / rows_ * element),
                static_cast<std::size_t>(element));
  }
}

StationaryOperand KernelShadow::read(const NeuralTask& task) const {
  const KernelImageShape& image = task.product.image;
  const std::int64_t outputs = image.groups * image.output_channels;
  const auto element = static_cast<std::size_t>(format_bytes(image.format));
  StationaryOperand operand;
  if (!task.dynamic) {
    operand.weights.resize(static_cast<std::size_t>(outputs * image.channels * image.taps) *
                           element);
    std::byte* to = operand.weights.data();
    for (std::int64_t o = 0; o < outputs; ++o) {
      const std::int64_t group = o / image.output_channels, of = o % image.output_channels;
      for (std::int64_t c = 0; c < image.channels; ++c) {
        for (std::int64_t t = 0; t < image.taps; ++t, to += element) {
          const ElementPlace place = place_in_kernel_image(image, {group, of, c, t});
          std::memcpy(to, at(place.partition, task.kernel_offset + place.offset), element);
        }
      }
    }
  }
  if (task.product.has_bias) {
    const std::int64_t bytes = format_bytes(task.product.bias_format);
    operand.bias.resize(static_cast<std::size_t>(outputs * bytes));
    read_vector(task.bias_offset, outputs, bytes, operand.bias.data());
  }
  // One element holds for all output channels.
  const auto read_words = [&](std::uint32_t offset, std::uint32_t count, auto& words) {
    words.resize(static_cast<std::size_t>(outputs));
    if (count == 0) return;
    read_vector(offset, count, 4, reinterpret_cast<std::byte*>(words.data()));
    if (count == 1) std::fill(words.begin(), words.end(), words[0]);
  };
  if (task.product.requantise) {
    read_words(task.multiplier_offset, task.multiplier_count, operand.multipliers);
  }
  read_words(task.zero_point_offset, task.zero_point_count, operand.zero_points);
  return operand;
}

namespace {

// Puts `part` at element `first` of a vector of `count` elements, or compares.
template <typename T>
bool put(std::span<const T> part, std::int64_t first, std::int64_t total, bool compare,
         std::vector<T>& whole) {
  if (part.empty()) return true;
  whole.resize(static_cast<std::size_t>(total));
  const auto at = whole.begin() + first;
  // Bit for bit: a NaN equals itself.
  if (compare) return std::memcmp(&*at, part.data(), part.size() * sizeof(T)) == 0;
  std::copy(part.begin(), part.end(), at);
  return true;
}

}  // namespace

bool KernelShadow::take(const Group& group, const TaskPlace& place, const NeuralTask& task,
                        StationaryOperand& operand) {
  const std::array<std::int64_t, 6> id = identity_of(task);
  const KernelImageShape &whole = group.product.image, &part = task.product.image;
  const std::int64_t first = place.output[kChannels], total = group.output[kChannels];
  // Parts of a sum have vectors of the same output channels.
  const std::pair key{first, place.input[kChannels] % whole.channels};
  const auto other = operand.slices.lower_bound({first, 0});
  const bool vectors_there = other != operand.slices.end() && other->first.first == first;
  const auto known = operand.slices.find(key);
  const bool there = known != operand.slices.end();
  if (there && known->second == id && std::count(id.begin(), id.end(), -1) == 0) return true;
  if (vectors_there && other->second[5] != id[5]) return false;
  const StationaryOperand slice = read(task);
  const std::int64_t channel = whole.taps * format_bytes(whole.format);
  const std::int64_t run = part.channels * channel, pitch = whole.channels * channel;
  for (std::int64_t o = 0; !slice.weights.empty() && o < id[5]; ++o) {
    const std::span<const std::byte> of(slice.weights.data() + o * run,
                                        static_cast<std::size_t>(run));
    const std::int64_t at = (first + o) * pitch + key.second * channel;
    if (!put(of, at, total * pitch, there, operand.weights)) return false;
  }
  const std::int64_t bias = format_bytes(group.product.bias_format);
  operand.slices[key] = id;
  const auto add = [&](const auto& vector, std::int64_t size, bool compare, auto& to) {
    return put(std::span(vector), first * size, total * size, compare, to);
  };
  // One part has the bias and one the multipliers; all have the zero points.
  return add(slice.bias, bias, there, operand.bias) &&
         add(slice.multipliers, 1, there, operand.multipliers) &&
         add(slice.zero_points, 1, vectors_there, operand.zero_points);
}

}  // namespace tessera::concord
