#include "package/container_tables.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "package/package_check.h"

namespace tessera::package {

using isa::BaseIndex;
using isa::HostStep;
using isa::kBaseIndexCount;
using isa::LayerHint;
using isa::RegionPart;
using isa::SectionPart;
using isa::Sha256;
using isa::TensorSlot;

namespace {

std::unique_ptr<fb::TensorSlotT> to_fb(const TensorSlot& slot) {
  auto result = std::make_unique<fb::TensorSlotT>();
  result->name = slot.name;
  result->tensor = slot.tensor;
  result->format = static_cast<std::uint8_t>(slot.format);
  result->dims = slot.dims;
  result->base = static_cast<std::uint8_t>(slot.address.base);
  result->offset = slot.address.offset;
  result->dense_dims = slot.dense_dims;
  return result;
}

}  // namespace

std::vector<std::unique_ptr<fb::TensorSlotT>> to_fb(const std::vector<TensorSlot>& slots) {
  std::vector<std::unique_ptr<fb::TensorSlotT>> result;
  for (const TensorSlot& slot : slots) result.push_back(to_fb(slot));
  return result;
}

std::unique_ptr<fb::HostStepT> to_fb(const HostStep& step) {
  auto result = std::make_unique<fb::HostStepT>();
  result->node = step.node;
  result->inputs = to_fb(step.inputs);
  result->outputs = to_fb(step.outputs);
  return result;
}

std::vector<std::unique_ptr<fb::HintT>> to_fb(const std::vector<LayerHint>& hints) {
  std::vector<std::unique_ptr<fb::HintT>> result;
  for (const LayerHint& hint : hints) {
    auto entry = std::make_unique<fb::HintT>();
    entry->name = hint.name;
    entry->kind = hint.kind;
    entry->origins = hint.origins;
    entry->output_dims = hint.output_dims;
    entry->macs = hint.macs;
    result.push_back(std::move(entry));
  }
  return result;
}

std::vector<std::uint8_t> to_fb(const Sha256& digest) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(digest.data());
  return {data, data + digest.size()};
}

std::unique_ptr<fb::ConstantT> constant_entry(const std::string& name, Format format,
                                              const Shape& dims, const SectionPart& place) {
  auto entry = std::make_unique<fb::ConstantT>();
  entry->name = name;
  entry->format = static_cast<std::uint8_t>(format);
  entry->dims = dims;
  entry->offset = place.offset;
  entry->bytes = place.bytes;
  return entry;
}

std::unique_ptr<fb::ConstantT> elsewhere(const std::string& name, Format format, const Shape& dims,
                                         const SectionPart& place) {
  auto entry = constant_entry(name, format, dims, place);
  entry->sha256 = to_fb(place.digest);
  entry->elsewhere = true;
  return entry;
}

std::vector<std::unique_ptr<fb::WeightPartT>> to_fb(const std::vector<RegionPart>& parts) {
  std::vector<std::unique_ptr<fb::WeightPartT>> result;
  for (const RegionPart& part : parts) {
    auto entry = std::make_unique<fb::WeightPartT>();
    entry->at = part.at;
    entry->place =
        elsewhere("", Format::kU8, {static_cast<std::int64_t>(part.place.bytes)}, part.place);
    result.push_back(std::move(entry));
  }
  return result;
}

Error bad(const std::string& name, const std::string& what) {
  return Error{ErrorCode::kInvalidModel, fmt::format("'{}': {}", name, what)};
}

Result<Format> format_of(std::uint8_t value, const std::string& what) {
  if (value >= kFormatCount) {
    return bad(what, fmt::format("format {}, allowed 0..{}", value, kFormatCount - 1));
  }
  return static_cast<Format>(value);
}

Result<std::int64_t> dense_bytes(const Shape& dims, Format format, const std::string& what) {
  std::int64_t bytes = format_bytes(format);
  for (const std::int64_t extent : dims) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      return bad(what, fmt::format("dimension {} out of range", extent));
    }
  }
  return bytes;
}

Result<std::vector<TensorSlot>> slots_of(const std::vector<std::unique_ptr<fb::TensorSlotT>>& list,
                                         const std::string& name) {
  std::vector<TensorSlot> slots;
  for (const auto& entry : list) {
    if (!entry) return bad(name, "an empty tensor slot");
    TensorSlot slot;
    slot.name = entry->name;
    slot.tensor = entry->tensor;
    TESSERA_TRY(slot.format, format_of(entry->format, name + "' tensor '" + entry->name));
    slot.dims = entry->dims;
    TESSERA_TRY(const std::int64_t bytes, dense_bytes(slot.dims, slot.format, name));
    (void)bytes;
    if (entry->base >= kBaseIndexCount) {
      return bad(name, fmt::format("tensor '{}': base {}, allowed 0..{}", entry->name, entry->base,
                                   kBaseIndexCount - 1));
    }
    slot.address = {static_cast<BaseIndex>(entry->base), entry->offset};
    slot.dense_dims = entry->dense_dims;
    slots.push_back(std::move(slot));
  }
  return slots;
}

Result<HostStep> host_step_of(const fb::HostStepT& entry, const std::string& name) {
  HostStep step;
  step.node = entry.node;
  TESSERA_TRY(step.inputs, slots_of(entry.inputs, name));
  TESSERA_TRY(step.outputs, slots_of(entry.outputs, name));
  return step;
}

std::vector<LayerHint> hints_of(const std::vector<std::unique_ptr<fb::HintT>>& list) {
  std::vector<LayerHint> hints;
  for (const auto& entry : list) {
    if (!entry) continue;
    hints.push_back({entry->name, entry->kind, entry->origins, entry->output_dims, entry->macs});
  }
  return hints;
}

Result<SectionPart> part_of(const fb::ConstantT& entry, std::uint64_t section_bytes,
                            const std::string& name) {
  SectionPart part{entry.offset, entry.bytes, {}};
  if (entry.sha256.size() != part.digest.size()) {
    return bad(name, fmt::format("a digest of {} bytes, allowed are {}", entry.sha256.size(),
                                 part.digest.size()));
  }
  std::memcpy(part.digest.data(), entry.sha256.data(), part.digest.size());
  if (part.bytes > section_bytes || part.offset > section_bytes - part.bytes) {
    return bad(name, fmt::format("{} bytes at {} of another file's section, allowed are up to {}",
                                 part.bytes, part.offset, section_bytes));
  }
  return part;
}

Result<std::vector<RegionPart>> weight_parts_of(
    const std::vector<std::unique_ptr<fb::WeightPartT>>& list, std::uint64_t between,
    std::uint64_t section_bytes, const std::string& name) {
  if (list.size() > kWeightPartsMax) {
    return bad(name, fmt::format("{} parts of the weights, allowed up to {}", list.size(),
                                 kWeightPartsMax));
  }
  std::vector<RegionPart> parts;
  std::uint64_t end = 0, left = between, all = between;
  for (const auto& entry : list) {
    if (!entry || !entry->place) return bad(name, "an empty part of the weights");
    RegionPart part{entry->at, {}};
    TESSERA_TRY(part.place, part_of(*entry->place, section_bytes, name));
    const bool last = entry == list.back();
    if (part.at % isa::kRegionPartAlignment != 0 || part.at < end || part.at - end > left) {
      return bad(name, fmt::format("a part of the weights at {}, allowed multiples of {} from {} "
                                   "to {}",
                                   part.at, isa::kRegionPartAlignment, end, end + left));
    }
    left -= part.at - end;
    end = part.at + part.place.bytes;
    all += part.place.bytes;
    const bool whole = part.place.bytes % isa::kRegionPartAlignment == 0;
    if (part.place.bytes == 0 || (!whole && !(last && left == 0)) || all > kRegionBytesMax) {
      return bad(name,
                 fmt::format("a part of the weights of {} bytes, allowed multiples of {} up to {} "
                             "together, and any at the end",
                             part.place.bytes, isa::kRegionPartAlignment, kRegionBytesMax));
    }
    parts.push_back(part);
  }
  return parts;
}

Result<std::int64_t> count_of(std::int64_t dropped, const std::string& name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  if (dropped >= 0 && dropped <= kMost) return dropped;
  return bad(name, fmt::format("{} dependencies dropped, allowed 0..{}", dropped, kMost));
}

}  // namespace tessera::package
