// Products whose terms come in parts: sums stay exact between two of them, and the last part rounds
// them once. What the parts add up to has the bits of the whole product (arith/kernels/product.h):
//
//   integers                    int32, modulo 2^32
//   block float, Microscaling   the wide accumulator, where parts hold whole native vectors
//   plain floats                binary64, where the parts' terms follow each other in the order of the sum
//
// The obvious form: one output element at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arith/block_float.h"
#include "arith/kernels/product_config.h"
#include "arith/kernels/product_parts.h"
#include "arith/kernels/surface.h"
#include "arith/microscaling.h"

namespace tessera {

// A sum that is not rounded yet; each kind of product has its own member of it.
struct PartialSum {
  arith::WideAccumulator wide;
  double number = 0.0;
  std::uint32_t integer = 0;
  bool nan = false;  // a block of Microscaling was no number
};

// Where the sums of a product lie.
class PartialSums {
 public:
  virtual ~PartialSums() = default;
  // Of an output channel of all groups, and a pixel of the output.
  virtual PartialSum& at(std::int64_t channel, std::int64_t row, std::int64_t column) = 0;
};

// Weights quantised once. Not channel-wise.
class PartialProduct {
 public:
  PartialProduct(const ProductConfig& config, kernels::PlainWeights weights,
                 ProductVectors vectors);

  // Output pixels: some rows of all columns.
  struct Pixels {
    RowRange rows;
    std::int64_t columns = 0;
  };
  // Adds this part's products; sums begin with the bias if `begins`. `input` holds groups * channels
  // channels. Flags are or-ed into `flags`.
  void add(const Surface& input, const Pixels& pixels, bool begins, PartialSums& sums,
           arith::StickyFlags& flags) const;
  // Rounds the sums into the output. `input` is a format of the operands, whose sums have a range flag.
  void finish(PartialSums& sums, const Pixels& pixels, Format input, const Surface& output,
              std::int64_t output_channel_first, arith::StickyFlags& flags) const;

 private:
  // A kernel tap with a sample.
  struct Sample {
    std::int64_t tap = 0, row = 0, column = 0;
  };
  // What lies under the taps of one output pixel, channels of a group side by side.
  struct Moving;

  std::int64_t channels_of_group() const { return config_.image.output_channels; }
  void quantise_weights();
  std::vector<Sample> samples_of(const Surface& input, std::int64_t row, std::int64_t column) const;
  Moving quantise(const Surface& input, const std::vector<Sample>& samples, std::int64_t group,
                  arith::StickyFlags& flags) const;
  void begin(std::int64_t channel, PartialSum& sum, arith::StickyFlags& flags) const;
  void add_to(std::int64_t channel, const Moving& moving, int unit, PartialSum& sum) const;
  double result(const PartialSum& sum, std::int64_t channel, Format input, Format output,
                arith::StickyFlags& flags) const;

  ProductConfig config_;
  ProductVectors vectors_;
  kernels::PlainWeights weights_;
  // By output channel, tap, block.
  std::int64_t blocks_ = 1;  // along the channels of a tap
  std::vector<arith::BlockFloat> weight_blocks_;
  std::vector<arith::MicroBlock> weight_micro_;
  std::vector<double> weight_numbers_;  // integers without their zero point; plain floats
  arith::StickyFlags weight_flags_;
};

}  // namespace tessera
