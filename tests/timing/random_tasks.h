// Random tasks of every kind, one at a time, that fit a processor: what estimates are held against
// the virtual processor with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "arch/chip_config.h"
#include "isa/program.h"

namespace tessera::timing {

enum class TaskKind : std::uint8_t {
  kProduct,
  kIm2colProduct,
  kChannelWiseProduct,
  kGroupedProduct,
  kTransposedProduct,
  kDynamicProduct,
  kMicroscalingProduct,
  kTransposeOnArray,
  kLaneFilter,
  kPooling,
  kElementwise,
  kElementwiseOfTwo,
  kReduction,
  kTransposeOnPlanar,
  kPoolingInParts,
  kDenseLoad,
  kStridedLoad,
  kScatteredLoad,
  kBroadcastLoad,
  kDenseStore,
  kStridedStore,
  kScatteredStore,
  kCopy,
  kFill,
  kKernel,
  kPaletteKernel,
  kMaskKernel,
  kMessageIn,
  kMessageOut,
  kMessageMatrix
};
inline constexpr int kTaskKindCount = 30;
// Of a processor with message ports.
inline bool is_message_kind(TaskKind kind) { return kind >= TaskKind::kMessageIn; }
std::string_view task_kind_name(TaskKind kind);

// A program of one task in one segment, and what the task is in words.
struct RandomTask {
  isa::Program program;
  std::string shape;
};

class RandomTasks {
 public:
  // Extents are log-uniform, shrunk until the task fits the processor.
  RandomTasks(const ChipConfig& chip, std::uint32_t seed) : chip_(chip), random_(seed) {}
  RandomTask make(TaskKind kind);

 private:
  struct Made {
    isa::EngineKind engine = isa::EngineKind::kNeural;
    isa::TaskConfig config;
    isa::Bands bands;
    std::vector<std::byte> weights;
    std::string shape;
  };
  struct Extents {
    std::int64_t images = 1, channels = 1, rows = 1, columns = 1;
    Format format = Format::kF16;
  };

  std::int64_t pick(std::int64_t low, std::int64_t high);         // uniform
  std::int64_t log_uniform(std::int64_t low, std::int64_t high);  // more of the small ones
  bool one_in(int n) { return pick(1, n) == 1; }
  isa::BufferSurface surface(const Extents& extents, std::int64_t half) const;
  std::int64_t bytes_of(const Extents& extents) const;
  // Halves the longest of channels, rows and columns until it takes at most half a partition.
  void shrink(Extents& extents) const;
  isa::Bands bands(const isa::BufferSurface& output);
  Activation activation();
  Made product(TaskKind kind);
  void shape_product(TaskKind kind, Extents& moving, ProductConfig& product);
  void choose_formats(TaskKind kind, Extents& moving, ProductConfig& product);
  Made dynamic_product();
  Made transpose(bool array);
  Made pooling(bool in_parts);
  Made elementwise(bool two);
  Made reduction();
  Made transfer(TaskKind kind, bool load);
  Made copy(bool fill);
  Made kernel(TaskKind kind);
  Made compressed_kernel(bool mask);
  Made messages(bool in);
  Made message_matrix();

  const ChipConfig chip_;
  std::mt19937 random_;
};

}  // namespace tessera::timing
