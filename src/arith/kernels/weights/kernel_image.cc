#include "arith/kernels/weights/kernel_image.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/element_size.h"
#include "base/huge_pages.h"
#include "base/quantity.h"

namespace tessera {

std::int64_t KernelImageShape::tiles() const {
  if (cut == BlockCut::kIm2col) return ceil_div(taps * channels, rows);
  return taps * ceil_div(channels, rows);
}

std::int64_t KernelImageShape::column_blocks() const { return ceil_div(output_channels, columns); }

std::int64_t KernelImageShape::bytes_per_partition() const {
  const std::int64_t element = format_bytes(format);
  if (channel_wise) return ceil_div(groups * output_channels, rows) * taps * element;
  return groups * column_blocks() * tiles() * columns * element;
}

ElementPlace place_in_kernel_image(const KernelImageShape& shape, const KernelElement& element) {
  const std::int64_t bytes = format_bytes(shape.format);
  if (shape.channel_wise) {
    const std::int64_t channel = element.group * shape.output_channels + element.output_channel;
    return {.partition = channel % shape.rows,
            .offset = (channel / shape.rows * shape.taps + element.tap) * bytes};
  }
  std::int64_t tile = 0;
  std::int64_t row = 0;
  if (shape.cut == BlockCut::kIm2col) {
    const std::int64_t k = element.tap * shape.channels + element.channel;
    tile = k / shape.rows;
    row = k % shape.rows;
  } else {
    tile = element.tap * ceil_div(shape.channels, shape.rows) + element.channel / shape.rows;
    row = element.channel % shape.rows;
  }
  const std::int64_t block =
      element.group * shape.column_blocks() + element.output_channel / shape.columns;
  const std::int64_t place =
      (block * shape.tiles() + tile) * shape.columns + element.output_channel % shape.columns;
  return {.partition = row, .offset = place * bytes};
}

namespace {

constexpr std::int64_t kOutputsTogether = 32;

// The weights of `count` output channels; those of one (channel, tap) go beside each other, inner[(channel, tap)]
// behind `base`.
template <typename Element>
void put_outputs(const std::byte* source, std::int64_t count, std::span<const std::int64_t> inner,
                 std::byte* base) {
  const std::size_t run = inner.size();
  std::array<Element, kOutputsTogether> line;
  for (std::size_t k = 0; k < run; ++k) {
    for (std::int64_t o = 0; o < count; ++o) {
      const std::size_t at = static_cast<std::size_t>(o) * run + k;
      std::memcpy(&line[static_cast<std::size_t>(o)], source + at * sizeof(Element),
                  sizeof(Element));
    }
    std::memcpy(base + inner[k], line.data(), static_cast<std::size_t>(count) * sizeof(Element));
  }
}

}  // namespace

std::vector<std::byte> make_kernel_image(const KernelImageShape& shape, const std::byte* oihw) {
  TESSERA_CHECK(shape.rows > 0 && shape.columns > 0, "kernel image of {} x {}", shape.rows,
                shape.columns);
  TESSERA_CHECK(!shape.channel_wise || shape.channels == 1, "channel-wise with {} channels",
                shape.channels);
  const std::int64_t pitch = shape.bytes_per_partition();
  std::vector<std::byte> image = zeros_in_huge_pages(static_cast<std::size_t>(shape.rows * pitch));
  const std::int64_t bytes = format_bytes(shape.format);
  // Where (channel, tap) goes does not depend on the output channel but for its start.
  std::vector<std::int64_t> inner;
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    for (std::int64_t tap = 0; tap < shape.taps; ++tap) {
      const ElementPlace place = place_in_kernel_image(shape, {0, 0, channel, tap});
      inner.push_back(place.partition * pitch + place.offset);
    }
  }
  // Output channels of a block of columns lie beside each other; of a channel-wise kernel, in a partition each.
  const std::int64_t together = shape.channel_wise ? 1 : kOutputsTogether;
  const auto run = static_cast<std::int64_t>(inner.size());
  const std::byte* source = oihw;
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    for (std::int64_t oc = 0; oc < shape.output_channels;) {
      const std::int64_t of_block = shape.columns - oc % shape.columns;
      const std::int64_t count = std::min({together, of_block, shape.output_channels - oc});
      const ElementPlace start = place_in_kernel_image(shape, {group, oc, 0, 0});
      std::byte* const base = image.data() + start.partition * pitch + start.offset;
      with_element(
          bytes, [&](auto element) { put_outputs<decltype(element)>(source, count, inner, base); });
      source += count * run * bytes;
      oc += count;
    }
  }
  return image;
}

std::vector<std::byte> make_vector_image(std::int64_t rows, std::int64_t count,
                                         std::int64_t element_bytes, const std::byte* values) {
  const std::int64_t pitch = ceil_div(count, rows) * element_bytes;
  std::vector<std::byte> image(static_cast<std::size_t>(rows * pitch));
  for (std::int64_t o = 0; o < count; ++o) {
    std::memcpy(image.data() + (o % rows) * pitch + (o / rows) * element_bytes,
                values + o * element_bytes, static_cast<std::size_t>(element_bytes));
  }
  return image;
}

}  // namespace tessera
