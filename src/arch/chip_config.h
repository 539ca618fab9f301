// What the processor is: sizes, limits and timing, as an architecture file gives them
// (arch/architecture_file.h).
#pragma once

#include <cstdint>
#include <string>

#include "arch/card_config.h"
#include "arch/dram_mapping.h"
#include "arith/format.h"
#include "arith/weight_grid.h"

namespace tessera {

// What stays in the array: weights, while inputs flow from the left and partial sums flow down; or
// the sums, while inputs flow from the left and weights from above.
enum class Dataflow : std::int32_t { kWeightStationary, kOutputStationary };
// Passes (folds) of the array: the next one's weights load and stream behind the one before, or
// each loads, streams and drains before the next begins.
enum class Folds : std::int32_t { kOverlapped, kSerial };

struct NeuralEngineConfig {
  std::int32_t count = 1;                 // neural engines in a core
  std::int32_t clock_thousandths = 1000;  // of the core's clock
  Dataflow dataflow = Dataflow::kWeightStationary;
  Folds folds = Folds::kOverlapped;
  std::int32_t rows = 128;     // R: input channels (K) per array pass
  std::int32_t columns = 128;  // C: output channels per array pass
  // Pixels that enter the array side by side, where a product leaves rows and columns of it free.
  std::int32_t fold_pixels_max = 8;
  std::int32_t psum_banks = 8;                      // PSUM banks
  std::int32_t psum_bank_columns = 512;             // moving columns (pixels) a bank holds
  std::int32_t kernel_bytes_per_partition = 32768;  // kernel memory, a partition per array row
  std::int32_t post_processor_latency_cycles = 8;
  std::int32_t task_start_cycles = 16;  // configuration of a task
  // An array that is driven by commands takes a pass in pieces of this many columns of one row; 0:
  // a pass is one piece.
  std::int32_t command_columns = 0;
  std::int32_t command_cycles_min = 0;         // that a shorter piece takes
  std::int32_t command_stall_thousandths = 0;  // cycles lost at a piece, on average
  std::int32_t tile_stall_thousandths = 0;     // cycles lost at a tile of weights, on average
  friend bool operator==(const NeuralEngineConfig&, const NeuralEngineConfig&) = default;
};

struct PlanarEngineConfig {
  std::int32_t count = 1;
  std::int32_t clock_thousandths = 1000;  // of the core's clock
  std::int32_t lanes = 128;               // channels (partitions) worked on at once
  std::int32_t elements_per_lane = 8;     // elements per lane and cycle
  std::int32_t latency_cycles = 12;
  std::int32_t task_start_cycles = 16;
  std::int32_t window_rows_max = 64;  // line buffer depth
  std::int32_t window_columns_max = 64;
  std::int32_t filter_taps = 8;  // of each of the two filters of a pooling
};

struct StateBufferConfig {
  std::int32_t partitions = 128;  // P
  std::int32_t bytes_per_partition = 196608;
  std::int32_t port_elements = 8;  // elements a partition delivers to the array in a cycle
  // Equal parts of a partition, each with ports of its own (arch/port_schedule.h); 0: whatever
  // reads and writes the buffer never meets.
  std::int32_t banks = 8;
  std::int32_t read_ports = 1, write_ports = 1;  // of a bank
  std::int32_t port_bytes = 32;                  // that a port moves in a cycle
};

// Whose request a memory channel takes next: each port in turn, or the kernel DMA only where no
// other asks. Kernels are fetched far ahead, data when it is wanted.
enum class Arbitration : std::int32_t { kInTurn, kKernelsLast };

// What the memory is: a pipe without banks; a row of dram_devices(); or ChipConfig::dram_custom.
enum class DramKind : std::int32_t {
  kFlat,
  kDdr4_2400,
  kDdr4_3200,
  kHbm2_2000,
  kLpddr5_6400,
  kCustom
};

// On a card the memory of each group of cores (arch/card_config.h).
struct DramConfig {
  std::int64_t bytes = std::int64_t{4} << 30;
  DramKind device = DramKind::kLpddr5_6400;
  std::int32_t channels = 2;
  std::int32_t gang = 4;                // devices of a channel, side by side in lockstep
  std::int32_t interleave_bytes = 512;  // of consecutive addresses, then the next channel
  DramInterleave mapping = DramInterleave::kGroup;
  std::int32_t bank_hash = 1;                  // 1: row bits are mixed into group and bank
  std::int32_t queue_requests = 64;            // of a channel, of 64 B, reads and writes each
  std::int32_t write_high_percent = 80;        // of the queue: writes drain from here on
  std::int32_t write_low_percent = 20;         // down to here
  std::int32_t write_wait_bursts = 0;          // reads that a write waits for; 0: all there are
  std::int32_t controller_nanoseconds = 56;    // from the DMA to the channel and back
  std::int32_t refresh = 1;                    // 0: never
  std::int32_t flat_megabytes_per_second = 0;  // these three with DramKind::kFlat
  std::int32_t flat_nanoseconds = 0;           // from a request to its first data
  std::int32_t flat_burst_bytes = 64;          // the smallest transfer; a part of one costs a whole
  Arbitration arbitration = Arbitration::kKernelsLast;
  // Blocks in which the matrices at the edge of a network lie (graph/edge_blocks.h); 0: dense.
  std::int32_t edge_block_rows = 0, edge_block_columns = 0;
  friend bool operator==(const DramConfig&, const DramConfig&) = default;
};

struct DmaConfigLimits {
  std::int32_t request_bytes = 16384;  // of a channel: the unit of arbitration
  std::int32_t outstanding_requests = 8;
  std::int32_t port_bytes = 128;  // that a DMA engine moves into or out of the buffer in a cycle
  std::int32_t scatter_elements = 8;  // and elements, where neighbours in DRAM are apart in it
  std::int32_t task_start_cycles = 24;
  // Queues that loads and stores share; 0: the channel alone sets the pace. A descriptor moves up
  // to descriptor_bytes of one contiguous run through one queue.
  std::int32_t queues = 0;
  std::int32_t queue_megabytes_per_second = 17'000;
  std::int32_t descriptor_bytes = 4096;
  std::int32_t descriptor_nanoseconds = 0;  // beside the transfer itself
  friend bool operator==(const DmaConfigLimits&, const DmaConfigLimits&) = default;
};

struct TaskManagerConfig {
  std::int32_t queues = 4;                // task queues, by priority
  std::int32_t task_buffer_entries = 32;  // tasks in flight (configuration queue)
  std::int32_t configuration_words_per_cycle = 4;
  std::int32_t dispatch_cycles = 4;
  std::int32_t configuration_sets = 2;  // of registers, in the neural and the planar engine
  std::int32_t fetch_bytes = 0;  // of a request for descriptors; 0: see descriptor_request_bytes()
  std::int32_t guaranteed_entries = 0;  // of the task buffer, to each network of several
};

// The host beside the processor, for the time of its steps and of what goes to and fro
// (arch/host_time.h). It decides nothing of a program.
struct HostConfig {
  std::int32_t link_megabytes_per_second = 16'000;  // each direction
  std::int32_t link_nanoseconds = 2'000;            // a transfer, beside its bytes
  std::int32_t step_nanoseconds = 10'000;           // a host step, beside its bytes
  std::int32_t megabytes_per_second = 10'000;       // of the bytes that a host step touches
};

// Message processors at the network edge (arch/message_link.h): ports that bring vectors and matrices
// in, and as many that take results out.
struct MessageConfig {
  std::int32_t ports = 0;  // of each direction; 0: none
  std::int32_t megabytes_per_second = 12'500;
  std::int32_t nanoseconds = 500;    // from a port's last byte to its place, or the other way
  std::int32_t header_cycles = 8;    // a message's header, in front of its bytes
  std::int32_t buffer_bytes = 4096;  // that come in before a task asks for them
};

// Operands of element-wise work: as they are, or quantised like matrix inputs on the way, in native
// vectors along channels.
enum class VectorInputs : std::int32_t { kPlain, kQuantised };

struct FormatsConfig {
  Format vector = Format::kF16;
  MatrixFormat matrix;
  VectorInputs vector_inputs = VectorInputs::kPlain;
  std::int32_t quantised_bytes = 1;  // of operands that products of quantised models take whole
  // Grids for constant weights of float products (arith/weight_grid.h); 0: none. At most one of them.
  std::int32_t fixed_weight_bits = 0;
  std::int32_t logarithmic_weight_bits = 0;
  arith::WeightGrid weight_grid() const;
};

struct ChipConfig {
  std::string name = "tessera128";
  std::int64_t clock_hertz = 1'400'000'000;
  NeuralEngineConfig neural;
  PlanarEngineConfig planar;
  StateBufferConfig state_buffer;
  DramConfig dram;
  DramDevice dram_custom = custom_dram_device();  // with DramKind::kCustom
  DmaConfigLimits dma;
  TaskManagerConfig task_manager;
  MessageConfig message;
  HostConfig host;
  FormatsConfig formats;
  CardConfig card;
};

// Of a request for descriptors. Where the file says nothing, a channel's request, or 4 KiB: a buffer of two is small
// enough to be there.
std::int64_t descriptor_request_bytes(const ChipConfig& chip);

}  // namespace tessera
