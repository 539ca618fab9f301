// Streams expand to the image they were made of, fast and bit by bit; damaged ones are refused.
#include "arith/kernels/weights/kernel_stream.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "arith/kernels/testing/reference_kernel_stream.h"

namespace tessera {
namespace {

// An image whose elements are zero with some probability, else one of `values` different ones.
struct Image {
  std::int64_t partitions = 5, bytes = 0;
  std::uint32_t element_bytes = 2, image_bytes = 0;
  std::vector<std::byte> data;

  Image(std::mt19937_64& random, std::uint32_t element, std::uint64_t values, std::uint64_t zeros)
      : element_bytes(element) {
    image_bytes = element * static_cast<std::uint32_t>(1 + random() % 200);
    bytes = image_bytes + static_cast<std::int64_t>(random() % 9);
    data.resize(static_cast<std::size_t>(partitions * bytes));
    for (std::byte& b : data) b = static_cast<std::byte>(random());
    for (std::int64_t p = 0; p < partitions; ++p) {
      for (std::uint32_t at = 0; at < image_bytes; at += element) {
        const auto value = static_cast<std::uint32_t>(
            random() % 10 < zeros ? 0 : (1 + random() % values) * 0x01010101u);
        std::memcpy(data.data() + p * bytes + at, &value, element);
      }
    }
  }
  KernelRows rows() { return {data.data(), bytes, partitions, bytes}; }
};

using Expand = Status (*)(const KernelStream&, std::span<const std::byte>, const KernelRows&);

std::vector<std::byte> expanded(Expand expand, const KernelStream& form,
                                const std::vector<std::byte>& stream, const Image& image) {
  // Partitions lie further apart than in the image, as in kernel memory.
  const std::int64_t pitch = image.bytes + 13;
  std::vector<std::byte> memory(static_cast<std::size_t>(image.partitions * pitch),
                                std::byte{0xA5});
  const Status status = expand(form, stream, {memory.data(), pitch, image.partitions, image.bytes});
  EXPECT_TRUE(status.ok()) << status.error().message;
  std::vector<std::byte> result;
  for (std::int64_t p = 0; p < image.partitions; ++p) {
    const auto first = memory.begin() + p * pitch;
    result.insert(result.end(), first, first + image.bytes);
    for (std::int64_t i = image.bytes; i < pitch; ++i) EXPECT_EQ(first[i], std::byte{0xA5});
  }
  return result;
}

TEST(KernelStream, EveryFormExpandsToItsImage) {
  constexpr std::uint64_t kSeed = 3;
  std::mt19937_64 random(kSeed);
  int seen[3] = {};
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t element = 1u << random() % 3;
    const std::uint64_t values[] = {1, 2, 3, 5, 16, 17, 100, 255};
    Image image(random, element, values[random() % 8], random() % 11);
    for (const KernelStream& form : kernel_stream_forms(image.rows(), element, image.image_bytes)) {
      ++seen[form.palette_bits == 0 ? 0 : form.zero_mask ? 1 : 2];
      KernelStream stored = form;
      const std::vector<std::byte> stream = compress_kernel(form, image.rows());
      ASSERT_EQ(stream.size(), form.stored_bytes);
      // Small images may grow; their descriptors are refused, so only smaller ones are expanded.
      if (stream.size() > image.data.size()) continue;
      EXPECT_TRUE(check_kernel_stream(stored, stream, image.rows()).ok());
      EXPECT_EQ(expanded(expand_kernel_stream, form, stream, image), image.data);
      EXPECT_EQ(expanded(reference_expand_kernel_stream, form, stream, image), image.data);
    }
  }
  for (const int count : seen) EXPECT_GT(count, 100);
}

TEST(KernelStream, MoreThan256ValuesHaveNoPalette) {
  std::vector<std::uint16_t> values(512);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
  const KernelRows rows{reinterpret_cast<std::byte*>(values.data()), 256, 4, 256};
  const auto forms = kernel_stream_forms(rows, 2, 256);
  ASSERT_EQ(forms.size(), 1u);
  EXPECT_EQ(forms[0].palette_bits, 0u);
}

TEST(KernelStream, HandCodedStreamExpands) {
  // Palette {3, 9} of 2 bytes, mask 1 0 1 1, indices 1 0 1 (lowest bit first), a rest of one byte.
  const std::vector<std::uint8_t> stream = {3, 0, 9, 0, 0b1101, 0b101, 77};
  const KernelStream form{.element_bytes = 2,
                          .zero_mask = true,
                          .palette_bits = 1,
                          .palette_entries = 2,
                          .image_bytes = 8,
                          .stored_bytes = 7};
  std::vector<std::uint8_t> memory(9);
  const KernelRows rows{reinterpret_cast<std::byte*>(memory.data()), 9, 1, 9};
  ASSERT_TRUE(expand_kernel_stream(form, std::as_bytes(std::span(stream)), rows).ok());
  EXPECT_EQ(memory, (std::vector<std::uint8_t>{9, 0, 0, 0, 3, 0, 9, 0, 77}));
}

TEST(KernelStreamErrors, DamagedStreamsAreRefusedByBothOrByNeither) {
  constexpr std::uint64_t kSeed = 4;
  std::mt19937_64 random(kSeed);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    Image image(random, 2, 1 + random() % 40, 5);
    const auto forms = kernel_stream_forms(image.rows(), 2, image.image_bytes);
    KernelStream form = forms[random() % forms.size()];
    std::vector<std::byte> stream = compress_kernel(form, image.rows());
    if (stream.size() > image.data.size()) continue;
    switch (random() % 3) {
      case 0:
        stream[random() % stream.size()] ^= static_cast<std::byte>(1u << random() % 8);
        break;
      case 1:
        stream.resize(stream.size() - 1);
        form.stored_bytes = stream.size();
        break;
      default:
        form.image_bytes += 2;
        break;
    }
    std::vector<std::byte> fast(image.data.size()), plain(image.data.size());
    const KernelRows fast_rows{fast.data(), image.bytes, image.partitions, image.bytes};
    const KernelRows plain_rows{plain.data(), image.bytes, image.partitions, image.bytes};
    const bool fast_ok = expand_kernel_stream(form, stream, fast_rows).ok();
    const bool plain_ok = reference_expand_kernel_stream(form, stream, plain_rows).ok();
    EXPECT_EQ(fast_ok, plain_ok) << "round " << round;
    EXPECT_EQ(check_kernel_stream(form, stream, fast_rows).ok(), fast_ok);
    if (fast_ok && plain_ok) {
      EXPECT_EQ(fast, plain);
    }
    refused += fast_ok ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

TEST(KernelStreamErrors, FieldsOutOfRangeAreNamed) {
  const KernelStream good{.element_bytes = 2,
                          .zero_mask = true,
                          .palette_bits = 3,
                          .palette_entries = 8,
                          .image_bytes = 64,
                          .stored_bytes = 100};
  const auto error = [](const KernelStream& stream) {
    const Status status = check_kernel_stream_fields(stream, 4, 64);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(error(good), "");
  KernelStream bad = good;
  bad.element_bytes = 3;
  EXPECT_EQ(error(bad), "compressed kernel: elements of 3 bytes, allowed 1, 2 or 4");
  bad = good;
  bad.zero_mask = false;
  bad.palette_bits = bad.palette_entries = 0;
  EXPECT_EQ(error(bad), "compressed kernel: neither a palette nor a zero mask");
  bad = good;
  bad.palette_bits = 9;
  EXPECT_EQ(error(bad), "compressed kernel: indices of 9 bits, allowed 0..8");
  bad = good;
  bad.palette_entries = 9;
  EXPECT_EQ(error(bad), "compressed kernel: a palette of 9 entries, indices have 3 bits");
  bad = good;
  bad.image_bytes = 65;
  EXPECT_EQ(error(bad),
            "compressed kernel: 65 bytes of a partition in elements of 2, the partition has 64");
  bad = good;
  bad.stored_bytes = 257;
  EXPECT_EQ(error(bad), "compressed kernel: 257 bytes, expanded 256");
}

}  // namespace
}  // namespace tessera
