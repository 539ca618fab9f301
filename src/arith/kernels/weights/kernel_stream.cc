#include "arith/kernels/weights/kernel_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/element_size.h"
#include "base/quantity.h"

namespace tessera {
namespace {

constexpr std::size_t kPaletteMax = std::size_t{1} << kPaletteBitsMax;

Error bad(const std::string& what) {
  return {ErrorCode::kInvalidModel, "compressed kernel: " + what};
}

Error cut_off() { return bad("the stream ends before the last element"); }

std::int64_t values_bytes(const KernelStream& stream, std::int64_t kept) {
  if (stream.palette_bits == 0) return kept * stream.element_bytes;
  return ceil_div(kept * stream.palette_bits, 8);
}

std::uint64_t ones(std::int64_t count) {
  return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

struct Group {
  std::int64_t elements = 0;
  std::uint64_t mask = 0;
  const std::byte* values = nullptr;
  int kept() const { return std::popcount(mask); }
};

// A group's indices, a byte each.
void unpack(const Group& group, std::uint32_t bits, std::uint8_t* indices) {
  const int kept = group.kept();
  if (bits == 8) {
    std::memcpy(indices, group.values, static_cast<std::size_t>(kept));
    return;
  }
  const std::byte* next = group.values;
  std::uint32_t pool = 0;
  std::uint32_t have = 0;
  for (int i = 0; i < kept; ++i) {
    if (have < bits) {
      pool |= std::to_integer<std::uint32_t>(*next++) << have;
      have += 8;
    }
    indices[i] = static_cast<std::uint8_t>(pool & ((1u << bits) - 1));
    pool >>= bits;
    have -= bits;
  }
}

// Writes the elements of a group; `values` are those of the ones in the mask.
template <typename Element, typename Value>
void scatter(const Group& group, const Value& value, std::byte* to) {
  if (group.mask == ones(group.elements)) {
    for (int i = 0; i < static_cast<int>(group.elements); ++i) {
      const Element element = value(i);
      std::memcpy(to + static_cast<std::size_t>(i) * sizeof(Element), &element, sizeof(Element));
    }
    return;
  }
  std::memset(to, 0, static_cast<std::size_t>(group.elements) * sizeof(Element));
  int i = 0;
  for (std::uint64_t mask = group.mask; mask != 0; mask &= mask - 1, ++i) {
    const Element element = value(i);
    std::memcpy(to + static_cast<std::size_t>(std::countr_zero(mask)) * sizeof(Element), &element,
                sizeof(Element));
  }
}

// Walks a stream from group to group; every read is checked.
class Walk {
 public:
  Walk(const KernelStream& stream, std::span<const std::byte> bytes, const KernelRows& rows)
      : stream_(stream), bytes_(bytes), rows_(rows) {}

  // Calls visit(partition, first element, group) -> Status.
  template <typename Visit>
  Status groups(Visit&& visit) {
    TESSERA_RETURN_IF_ERROR(begin());
    const std::int64_t count = stream_.image_bytes / stream_.element_bytes;
    for (std::int64_t p = 0; p < rows_.partitions; ++p) {
      for (std::int64_t first = 0; first < count; first += kStreamGroupElements) {
        Group group{.elements = std::min(kStreamGroupElements, count - first)};
        TESSERA_RETURN_IF_ERROR(read(group));
        TESSERA_RETURN_IF_ERROR(visit(p, first, group));
      }
    }
    const std::int64_t rest = rows_.partitions * (rows_.bytes - stream_.image_bytes);
    if (left() < rest) return cut_off();
    if (left() > rest) return bad(fmt::format("{} bytes too many", left() - rest));
    return {};
  }
  const std::byte* palette() const { return bytes_.data(); }
  const std::byte* rest() const { return bytes_.data() + next_; }

 private:
  std::int64_t left() const { return static_cast<std::int64_t>(bytes_.size()) - next_; }

  Status begin() {
    TESSERA_RETURN_IF_ERROR(check_kernel_stream_fields(stream_, rows_.partitions, rows_.bytes));
    if (bytes_.size() != stream_.stored_bytes) return cut_off();
    next_ = std::int64_t{stream_.palette_entries} * stream_.element_bytes;
    if (left() < 0) return cut_off();
    return {};
  }

  Status read(Group& group) {
    group.mask = ones(group.elements);
    if (stream_.zero_mask) {
      const std::int64_t mask_bytes = ceil_div(group.elements, 8);
      if (left() < mask_bytes) return cut_off();
      std::uint64_t mask = 0;
      std::memcpy(&mask, bytes_.data() + next_, static_cast<std::size_t>(mask_bytes));
      if ((mask & ~group.mask) != 0) return bad("a zero mask goes on behind its partition");
      group.mask = mask;
      next_ += mask_bytes;
    }
    const std::int64_t size = values_bytes(stream_, group.kept());
    if (left() < size) return cut_off();
    group.values = bytes_.data() + next_;
    next_ += size;
    return {};
  }

  const KernelStream& stream_;
  const std::span<const std::byte> bytes_;
  const KernelRows& rows_;
  std::int64_t next_ = 0;
};

// The group's indices, each within the palette.
Status indices_of(const KernelStream& stream, const Group& group, std::uint8_t* indices) {
  unpack(group, stream.palette_bits, indices);
  if (stream.palette_entries == 1u << stream.palette_bits) return {};
  const int kept = group.kept();
  for (int i = 0; i < kept; ++i) {
    if (indices[i] < stream.palette_entries) continue;
    return bad(
        fmt::format("index {} of a palette of {} entries", indices[i], stream.palette_entries));
  }
  return {};
}

template <typename Element>
Status expand(const KernelStream& stream, std::span<const std::byte> bytes,
              const KernelRows& rows) {
  Walk walk(stream, bytes, rows);
  std::array<Element, kPaletteMax> palette{};
  if (stream.palette_entries <= kPaletteMax &&
      stream.palette_entries * sizeof(Element) <= bytes.size() && stream.palette_entries > 0) {
    std::memcpy(palette.data(), bytes.data(), stream.palette_entries * sizeof(Element));
  }
  std::array<std::uint8_t, kStreamGroupElements> indices;
  TESSERA_RETURN_IF_ERROR(
      walk.groups([&](std::int64_t p, std::int64_t first, const Group& group) -> Status {
        std::byte* const to =
            rows.base + p * rows.pitch + first * static_cast<std::int64_t>(sizeof(Element));
        if (stream.palette_bits == 0) {
          const auto value = [&group](int i) {
            Element element;
            std::memcpy(&element, group.values + static_cast<std::size_t>(i) * sizeof(Element),
                        sizeof(Element));
            return element;
          };
          scatter<Element>(group, value, to);
          return {};
        }
        TESSERA_RETURN_IF_ERROR(indices_of(stream, group, indices.data()));
        const auto value = [&](int i) { return palette[indices[static_cast<std::size_t>(i)]]; };
        scatter<Element>(group, value, to);
        return {};
      }));
  const std::int64_t rest = rows.bytes - stream.image_bytes;
  for (std::int64_t p = 0; rest > 0 && p < rows.partitions; ++p) {
    std::memcpy(rows.base + p * rows.pitch + stream.image_bytes, walk.rest() + p * rest,
                static_cast<std::size_t>(rest));
  }
  return {};
}

// ---- forms ----

std::uint32_t element_at(const std::byte* at, std::uint32_t element_bytes) {
  std::uint32_t element = 0;
  std::memcpy(&element, at, element_bytes);
  return element;
}

// Different elements of an image, in ascending order; empty if there are more than a palette holds.
// Zero is left out.
class Values {
 public:
  explicit Values(std::uint32_t element_bytes)
      : seen_(element_bytes <= 2 ? std::size_t{1} << (8 * element_bytes) : 0) {}

  void add(std::uint32_t element) {
    if (element == 0 || many_) return;
    if (!seen_.empty()) {
      if (seen_[element]) return;
      seen_[element] = true;
    }
    values_.insert(element);
    many_ = values_.size() > kPaletteMax;
  }
  bool many() const { return many_; }
  std::vector<std::uint32_t> list(bool with_zero) const {
    std::vector<std::uint32_t> list(values_.begin(), values_.end());
    if (with_zero) list.insert(list.begin(), 0);
    return list;
  }

 private:
  std::vector<bool> seen_;
  std::set<std::uint32_t> values_;
  bool many_ = false;
};

// Calls visit(elements, first element's address) for every group of the image.
template <typename Visit>
void for_each_group(const KernelRows& image, const KernelStream& form, Visit&& visit) {
  const std::int64_t count = form.image_bytes / form.element_bytes;
  for (std::int64_t p = 0; p < image.partitions; ++p) {
    for (std::int64_t first = 0; first < count; first += kStreamGroupElements) {
      visit(std::min(kStreamGroupElements, count - first),
            image.base + p * image.pitch + first * form.element_bytes);
    }
  }
}

struct Survey {
  explicit Survey(std::uint32_t element_bytes) : values(element_bytes) {}
  Values values;
  bool has_zero = false;
  // How many groups have n elements, of which k are not zero: [n][k].
  std::array<std::array<std::int64_t, kStreamGroupElements + 1>, kStreamGroupElements + 1> groups{};
};

// How many of a group's elements are not zero.
template <typename Element>
std::int64_t count_nonzero(const std::byte* at, std::int64_t elements) {
  std::array<Element, kStreamGroupElements> group{};
  std::memcpy(group.data(), at, static_cast<std::size_t>(elements) * sizeof(Element));
  std::int64_t count = 0;
  for (const Element element : group) count += element != 0;
  return count;
}

Survey survey(const KernelRows& image, const KernelStream& form) {
  Survey result(form.element_bytes);
  with_element(form.element_bytes, [&](auto element) {
    for_each_group(image, form, [&](std::int64_t elements, const std::byte* at) {
      const std::int64_t kept = count_nonzero<decltype(element)>(at, elements);
      if (kept < elements) result.has_zero = true;
      ++result.groups[static_cast<std::size_t>(elements)][static_cast<std::size_t>(kept)];
      for (std::int64_t i = 0; i < elements && !result.values.many(); ++i) {
        result.values.add(element_at(at + i * form.element_bytes, form.element_bytes));
      }
    });
  });
  return result;
}

void set_stored_bytes(const Survey& survey, const KernelRows& image, KernelStream& form) {
  std::int64_t bytes = std::int64_t{form.palette_entries} * form.element_bytes +
                       image.partitions * (image.bytes - form.image_bytes);
  for (std::int64_t elements = 1; elements <= kStreamGroupElements; ++elements) {
    for (std::int64_t kept = 0; kept <= elements; ++kept) {
      std::int64_t of_group = values_bytes(form, form.zero_mask ? kept : elements);
      if (form.zero_mask) of_group += ceil_div(elements, 8);
      bytes += survey.groups[static_cast<std::size_t>(elements)][static_cast<std::size_t>(kept)] *
               of_group;
    }
  }
  form.stored_bytes = static_cast<std::uint64_t>(bytes);
}

void set_palette(std::size_t entries, KernelStream& form) {
  form.palette_entries = static_cast<std::uint32_t>(std::max<std::size_t>(entries, 1));
  form.palette_bits = std::max<std::uint32_t>(
      1, static_cast<std::uint32_t>(std::bit_width(form.palette_entries - 1)));
}

std::vector<std::uint32_t> palette_of(const KernelStream& form, const Survey& survey) {
  std::vector<std::uint32_t> palette = survey.values.list(!form.zero_mask && survey.has_zero);
  if (palette.empty()) palette.push_back(0);
  return palette;
}

// Where an element stands in a palette.
class PaletteIndex {
 public:
  PaletteIndex(std::vector<std::uint32_t> palette, std::uint32_t element_bytes)
      : palette_(std::move(palette)) {
    if (element_bytes > 2) return;
    table_.resize(std::size_t{1} << (8 * element_bytes));
    for (std::size_t i = 0; i < palette_.size(); ++i) {
      table_[palette_[i]] = static_cast<std::uint8_t>(i);
    }
  }
  std::uint32_t operator()(std::uint32_t element) const {
    if (!table_.empty()) return table_[element];
    const auto at = std::lower_bound(palette_.begin(), palette_.end(), element);
    return static_cast<std::uint32_t>(at - palette_.begin());
  }

 private:
  std::vector<std::uint32_t> palette_;
  std::vector<std::uint8_t> table_;
};

void append(std::uint64_t bits, std::int64_t bytes, std::vector<std::byte>& out) {
  for (std::int64_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<std::byte>(bits >> (8 * i) & 0xFF));
  }
}

}  // namespace

Status check_kernel_stream_fields(const KernelStream& stream, std::int64_t partitions,
                                  std::int64_t bytes_per_partition) {
  const std::uint32_t element = stream.element_bytes;
  if (element != 1 && element != 2 && element != 4) {
    return bad(fmt::format("elements of {} bytes, allowed 1, 2 or 4", element));
  }
  if (!stream.zero_mask && stream.palette_bits == 0) {
    return bad("neither a palette nor a zero mask");
  }
  if (stream.palette_bits > kPaletteBitsMax) {
    return bad(
        fmt::format("indices of {} bits, allowed 0..{}", stream.palette_bits, kPaletteBitsMax));
  }
  const std::uint32_t entries_max = stream.palette_bits == 0 ? 0 : 1u << stream.palette_bits;
  if (stream.palette_entries > entries_max ||
      (stream.palette_bits > 0 && stream.palette_entries == 0)) {
    return bad(fmt::format("a palette of {} entries, indices have {} bits", stream.palette_entries,
                           stream.palette_bits));
  }
  if (stream.image_bytes == 0 || stream.image_bytes % element != 0 ||
      stream.image_bytes > bytes_per_partition) {
    return bad(fmt::format("{} bytes of a partition in elements of {}, the partition has {}",
                           stream.image_bytes, element, bytes_per_partition));
  }
  if (stream.stored_bytes == 0 ||
      stream.stored_bytes > static_cast<std::uint64_t>(partitions * bytes_per_partition)) {
    return bad(fmt::format("{} bytes, expanded {}", stream.stored_bytes,
                           partitions * bytes_per_partition));
  }
  return {};
}

Status check_kernel_stream(const KernelStream& stream, std::span<const std::byte> bytes,
                           const KernelRows& rows) {
  Walk walk(stream, bytes, rows);
  std::array<std::uint8_t, kStreamGroupElements> indices;
  return walk.groups([&](std::int64_t, std::int64_t, const Group& group) -> Status {
    if (stream.palette_entries == 1u << stream.palette_bits || stream.palette_bits == 0) return {};
    return indices_of(stream, group, indices.data());
  });
}

Status expand_kernel_stream(const KernelStream& stream, std::span<const std::byte> bytes,
                            const KernelRows& rows) {
  if (stream.element_bytes == 1) return expand<std::uint8_t>(stream, bytes, rows);
  if (stream.element_bytes == 2) return expand<std::uint16_t>(stream, bytes, rows);
  return expand<std::uint32_t>(stream, bytes, rows);
}

std::vector<KernelStream> kernel_stream_forms(const KernelRows& image, std::uint32_t element_bytes,
                                              std::uint32_t image_bytes) {
  KernelStream plain;
  plain.element_bytes = element_bytes;
  plain.image_bytes = image_bytes;
  const Survey found = survey(image, plain);
  std::vector<KernelStream> forms;
  const auto add = [&](bool zero_mask, bool with_palette) {
    KernelStream form = plain;
    form.zero_mask = zero_mask;
    if (with_palette) {
      if (found.values.many()) return;
      const std::size_t entries = palette_of(form, found).size();
      if (entries > kPaletteMax) return;
      set_palette(entries, form);
    }
    set_stored_bytes(found, image, form);
    forms.push_back(form);
  };
  add(false, true);
  add(true, false);
  add(true, true);
  return forms;
}

std::vector<std::byte> compress_kernel(const KernelStream& form, const KernelRows& image) {
  const Survey found = survey(image, form);
  std::vector<std::byte> out;
  out.reserve(form.stored_bytes);
  std::vector<std::uint32_t> palette;
  if (form.palette_bits > 0) palette = palette_of(form, found);
  TESSERA_CHECK(palette.size() == form.palette_entries, "a palette of {} entries, {} expected",
                palette.size(), form.palette_entries);
  for (const std::uint32_t entry : palette) append(entry, form.element_bytes, out);
  const PaletteIndex index_of(std::move(palette), form.element_bytes);
  std::array<std::uint32_t, kStreamGroupElements> kept;
  for_each_group(image, form, [&](std::int64_t elements, const std::byte* at) {
    std::uint64_t mask = 0;
    std::size_t count = 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::uint32_t element = element_at(at + i * form.element_bytes, form.element_bytes);
      if (form.zero_mask && element == 0) continue;
      mask |= std::uint64_t{1} << i;
      kept[count++] = element;
    }
    if (form.zero_mask) append(mask, ceil_div(elements, 8), out);
    std::uint32_t pool = 0;
    std::uint32_t have = 0;
    for (const std::uint32_t element : std::span(kept).first(count)) {
      if (form.palette_bits == 0) {
        append(element, form.element_bytes, out);
        continue;
      }
      pool |= index_of(element) << have;
      have += form.palette_bits;
      for (; have >= 8; have -= 8, pool >>= 8) append(pool & 0xFF, 1, out);
    }
    if (have > 0) append(pool, 1, out);
  });
  for (std::int64_t p = 0; p < image.partitions; ++p) {
    const std::byte* rest = image.base + p * image.pitch;
    out.insert(out.end(), rest + form.image_bytes, rest + image.bytes);
  }
  TESSERA_CHECK(out.size() == form.stored_bytes, "{} bytes, {} expected", out.size(),
                form.stored_bytes);
  return out;
}

}  // namespace tessera
