#include "firmware/chain_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::firmware {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kRegionMax = std::int64_t{1} << 40;

Error too_large(std::string message) { return {ErrorCode::kDoesNotFit, std::move(message)}; }

// SplitMix64: the same values everywhere.
class RandomValues {
 public:
  RandomValues(std::uint64_t seed, double scale) : state_(seed), scale_(scale) {}
  double next() {  // uniform in [-scale, scale)
    state_ += 0x9E3779B97F4A7C15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    return (static_cast<double>(z >> 40) * 0x1p-23 - 1.0) * scale_;
  }
  void skip(std::int64_t count) {
    state_ += 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(count);
  }

 private:
  std::uint64_t state_;
  double scale_;
};

}  // namespace

isa::BaseIndex base_of(const Symbol& symbol) {
  if (symbol.memory == ChainMemoryKind::kQueueIn) return isa::BaseIndex::kInput;
  if (symbol.memory == ChainMemoryKind::kQueueOut) return isa::BaseIndex::kOutput;
  if (symbol.memory == ChainMemoryKind::kDram) {
    if (symbol.use == DramUse::kInput) return isa::BaseIndex::kInput;
    if (symbol.use == DramUse::kOutput) return isa::BaseIndex::kOutput;
    if (symbol.use == DramUse::kWorkspace) return isa::BaseIndex::kWorkspace;
  }
  return isa::BaseIndex::kWeights;
}

isa::BufferSurface plane_surface(const Volume& volume, std::int64_t plane, std::int64_t rows,
                                 std::int64_t columns, Format format) {
  isa::BufferSurface surface;
  surface.offset = static_cast<std::uint32_t>(volume.offset + plane * volume.pitch[0]);
  surface.format = format;
  surface.channels = static_cast<std::uint32_t>(volume.length);
  surface.rows = static_cast<std::uint32_t>(rows);
  surface.columns = static_cast<std::uint32_t>(columns);
  surface.block_pitch = static_cast<std::uint32_t>(volume.block_pitch);
  surface.row_pitch = static_cast<std::uint32_t>(volume.pitch[1]);
  surface.column_pitch = static_cast<std::uint32_t>(volume.pitch[2]);
  surface.ring_rows = surface.rows;
  return surface;
}

Status ChainMemory::lay_out() {
  const std::int64_t native = native_vector(chip_);
  const std::int64_t partitions = chip_.state_buffer.partitions;
  if (native % partitions != 0) {
    return too_large(
        fmt::format("'{}' has {} partitions and a native dimension of {}: chains need "
                    "one to be a multiple of the other",
                    chip_.name, partitions, native));
  }
  std::array<std::int64_t, kRegisterFileCount> vectors = program_.file_vectors;
  for (const Symbol& symbol : program_.symbols) {
    if (!is_register_file(symbol.memory)) continue;
    std::int64_t& size = vectors[static_cast<std::size_t>(symbol.memory)];
    size = std::max(size, symbol.address + symbol.vectors);
  }
  std::int64_t next = 0;
  for (std::size_t file = 0; file < kRegisterFileCount; ++file) {
    file_base_[file] = next;
    next += vectors[file] * (native / partitions) * element();
  }
  if (next > chip_.state_buffer.bytes_per_partition) {
    return too_large(
        fmt::format("the register files (initial {}, addsub {}, "
                    "multiply {} native vectors) take "
                    "{} bytes of a partition, '{}' has {}",
                    vectors[0], vectors[1], vectors[2], next, chip_.name,
                    chip_.state_buffer.bytes_per_partition));
  }
  temporaries_first_ = next_temporary_ = next;
  for (std::size_t i = 0; i < program_.symbols.size(); ++i) {
    const Symbol& symbol = program_.symbols[i];
    dram_offset_.push_back(0);
    const isa::BaseIndex base = base_of(symbol);
    if (base == isa::BaseIndex::kWeights) {
      const bool vectors_of_it =
          symbol.memory == ChainMemoryKind::kDram || is_register_file(symbol.memory);
      if (!vectors_of_it || symbol.contents.kind == Contents::Kind::kNone) continue;
      const bool fill = symbol.contents.kind == Contents::Kind::kFill &&
                        is_register_file(symbol.memory);  // one element for all
      dram_offset_[i] =
          append_weights(contents_of(symbol, 0, fill ? 1 : symbol.volume() * symbol.length));
      continue;
    }
    std::int64_t& bytes = region_bytes_[base];
    dram_offset_[i] = bytes;
    const bool queue =
        symbol.memory == ChainMemoryKind::kQueueIn || symbol.memory == ChainMemoryKind::kQueueOut;
    const std::int64_t count = queue ? symbol.transfers : 1;
    bytes += round_up(count * symbol.volume() * symbol.length * element(), kAlignment);
    if (bytes > kRegionMax) return too_large(fmt::format("'{}' is too large", symbol.name));
  }
  return {};
}

std::int64_t ChainMemory::append_weights(std::span<const std::byte> bytes) {
  weights_.resize(
      static_cast<std::size_t>(round_up(static_cast<std::int64_t>(weights_.size()), kAlignment)));
  const auto offset = static_cast<std::int64_t>(weights_.size());
  weights_.insert(weights_.end(), bytes.begin(), bytes.end());
  return offset;
}

std::vector<std::byte> ChainMemory::contents_of(const Symbol& symbol, std::int64_t first,
                                                std::int64_t count) const {
  const Format format = chip_.formats.vector;
  const Contents& contents = symbol.contents;
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * element()));
  RandomValues random(contents.seed, contents.scale);
  random.skip(first);
  const std::int64_t matrix = symbol.rows * symbol.length;
  for (std::int64_t i = 0; i < count; ++i) {
    double value = 0;
    const auto at = static_cast<std::size_t>(first + i);
    switch (contents.kind) {
      case Contents::Kind::kNone:
        break;
      case Contents::Kind::kFill:
        value = contents.values[0];
        break;
      case Contents::Kind::kList:
        value = contents.values[at];
        break;
      case Contents::Kind::kRandom:
        value = random.next();
        break;
      case Contents::Kind::kIdentity:
        value = (first + i) % matrix % (symbol.length + 1) == 0 ? 1 : 0;
        break;
      case Contents::Kind::kFile:
        value = arith::read_element(
            contents.format,
            contents.bytes.data() + at * static_cast<std::size_t>(format_bytes(contents.format)));
        break;
    }
    arith::write_element(format, value, bytes.data() + i * element());
  }
  return bytes;
}

isa::DramAddress ChainMemory::address_of(std::size_t symbol) const {
  return {base_of(program_.symbols[symbol]), static_cast<std::uint64_t>(dram_offset_[symbol])};
}

Volume ChainMemory::volume_of(const VectorView& view) const {
  const std::int64_t slots = native_vector(chip_) / chip_.state_buffer.partitions;
  const std::int64_t address =
      view.symbol == SIZE_MAX ? 0 : program_.symbols[view.symbol].address * slots;
  Volume volume;
  volume.offset =
      file_base_[static_cast<std::size_t>(view.memory)] + (address + view.origin) * element();
  volume.block_pitch = view.block_pitch * element();
  for (std::size_t a = 0; a < kAxes; ++a) volume.pitch[a] = view.pitch[a] * element();
  volume.extents = view.extents;
  volume.length = view.length;
  return volume;
}

isa::DramView ChainMemory::dram_of(const VectorView& view, std::int64_t plane) const {
  isa::DramView dram;
  dram.address = address_of(view.symbol);
  dram.address.offset +=
      static_cast<std::uint64_t>((view.origin + plane * view.pitch[0]) * element());
  dram.strides = {0, element(), view.pitch[1] * element(), view.pitch[2] * element()};
  return dram;
}

std::optional<Volume> ChainMemory::temporary(const Extents& extents, std::int64_t length,
                                             Format format) {
  const std::int64_t bytes = format_bytes(format);
  const std::int64_t blocks = ceil_div(length, chip_.state_buffer.partitions);
  Volume volume;
  volume.length = length;
  volume.extents = extents;
  volume.block_pitch = extents[1] * extents[2] * bytes;
  volume.pitch = {blocks * volume.block_pitch, extents[2] * bytes, bytes};
  volume.offset = round_up(next_temporary_, bytes);
  const std::int64_t limit = chip_.state_buffer.bytes_per_partition;
  if (volume.pitch[0] > limit || volume.offset + extents[0] * volume.pitch[0] > limit) {
    return std::nullopt;
  }
  next_temporary_ = volume.offset + extents[0] * volume.pitch[0];
  return volume;
}

Result<KernelPlace> ChainMemory::place_image(const KernelImageShape& shape,
                                             const std::vector<std::byte>* oihw) {
  KernelPlace place{.shape = shape, .kernel_offset = next_kernel_};
  const std::int64_t bytes = shape.bytes_per_partition();
  const std::int64_t limit = chip_.neural.kernel_bytes_per_partition;
  if (next_kernel_ + bytes > limit) {
    return too_large(
        fmt::format("the matrices take {} bytes of a partition of the matrix register "
                    "file, '{}' has {}; use fewer at a time, or a chip with more",
                    next_kernel_ + bytes, chip_.name, limit));
  }
  next_kernel_ += bytes;
  if (oihw != nullptr)
    place.weights_offset = append_weights(make_kernel_image(shape, oihw->data()));
  return place;
}

ChainMemory::PartKey ChainMemory::key_of(const MatrixPart& part) {
  return {part.use.symbol, part.use.index, part.tap, part.plane_first, part.plane_last};
}

KernelImageShape ChainMemory::shape_of(const MatrixPart& part) const {
  const Symbol& symbol = program_.symbols[part.use.symbol];
  KernelImageShape shape;
  shape.channels = (part.plane_last - part.plane_first) * symbol.length;
  shape.output_channels = symbol.rows;
  shape.taps = part.tap < 0 ? symbol.window[1] * symbol.window[2] : 1;
  shape.rows = chip_.neural.rows;
  shape.columns = chip_.neural.columns;
  shape.format = chip_.formats.vector;
  return shape;
}

// From [rows, planes, taps of a plane, columns] to [rows, planes x columns,
// taps of a plane].
std::vector<std::byte> ChainMemory::elements_of(const MatrixPart& part) const {
  const Symbol& symbol = program_.symbols[part.use.symbol];
  const std::int64_t taps = symbol.window[1] * symbol.window[2];
  const std::int64_t row = symbol.taps() * symbol.length;
  const std::vector<std::byte> all =
      contents_of(symbol, part.use.index * symbol.rows * row, symbol.rows * row);
  std::vector<std::byte> elements;
  elements.reserve(all.size());
  for (std::int64_t o = 0; o < symbol.rows; ++o) {
    for (std::int64_t plane = part.plane_first; plane < part.plane_last; ++plane) {
      for (std::int64_t k = 0; k < symbol.length; ++k) {
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          if (part.tap >= 0 && tap != part.tap) continue;
          const std::int64_t at = o * row + (plane * taps + tap) * symbol.length + k;
          const auto* first = all.data() + at * element();
          elements.insert(elements.end(), first, first + element());
        }
      }
    }
  }
  return elements;
}

Result<KernelPlace> ChainMemory::place_matrix(const MatrixPart& part, bool& fresh) {
  const auto found = parts_.find(key_of(part));
  fresh = found == parts_.end();
  if (!fresh) return found->second;
  KernelPlace place;
  if (program_.symbols[part.use.symbol].contents.kind == Contents::Kind::kNone) {
    TESSERA_TRY(place, place_image(shape_of(part), nullptr));
  } else {
    const std::vector<std::byte> elements = elements_of(part);
    TESSERA_TRY(place, place_image(shape_of(part), &elements));
  }
  parts_.emplace(key_of(part), place);
  return place;
}

KernelPlace ChainMemory::place_source(const MatrixPart& part) {
  const auto found = sources_.find(key_of(part));
  if (found != sources_.end()) return found->second;
  KernelPlace place{.shape = shape_of(part)};
  place.weights_offset = append_weights(make_kernel_image(place.shape, elements_of(part).data()));
  sources_.emplace(key_of(part), place);
  return place;
}

Result<KernelPlace> ChainMemory::place_identity(std::int64_t rows, bool& fresh) {
  const auto found = identities_.find(rows);
  fresh = found == identities_.end();
  if (!fresh) return found->second;
  Symbol identity;
  identity.rows = identity.length = rows;
  identity.contents.kind = Contents::Kind::kIdentity;
  const std::vector<std::byte> oihw = contents_of(identity, 0, rows * rows);
  KernelImageShape shape;
  shape.channels = shape.output_channels = rows;
  shape.rows = chip_.neural.rows;
  shape.columns = chip_.neural.columns;
  shape.format = chip_.formats.vector;
  TESSERA_TRY(const KernelPlace place, place_image(shape, &oihw));
  identities_.emplace(rows, place);
  return place;
}

}  // namespace tessera::firmware
