// Planar work at speed, over surfaces: pooling, element-wise, reduction. The obvious forms are in
// planar/element.h and testing/reference_planar.h; tests hold them equal. The meaning of every
// field is that of graph::PoolAttributes, graph::ElementwiseAttributes and graph::ReduceAttributes.
#pragma once

#include <cstdint>

#include "arith/kernels/surface.h"
#include "arith/operation.h"
#include "arith/vector_ops.h"

namespace tessera {

struct PoolConfig {
  PoolFunction function = PoolFunction::kMaximum;
  std::int64_t window_h = 1, window_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;
  bool include_padding = false;
  Affine input, output;
  Activation before, after;  // converters: of each element, of each result
};

struct ElementwiseConfig {
  bool binary = false;
  BinaryFunction function = BinaryFunction::kAdd;
  Activation activation;
  Affine inputs[2];
  Affine output;
  Format gain_format = Format::kF16;  // of gain_bias(): what the product is rounded to
};

// A window's function as a reduction of its elements; a median is none.
ReduceFunction pool_reduction(PoolFunction function);

// Reduces rows and/or columns of a surface; channels are kept. Output extents are 1 on reduced
// axes. Elements are taken row-major (row outermost).
struct ReduceConfig {
  ReduceFunction function = ReduceFunction::kSum;
  bool over_rows = false;
  bool over_columns = true;
  Activation activation;
  Affine input, output;
  Activation before;  // converter: of each element
};

// Element-wise work on arrays: `b` is null for unary work; operands of stride 0 are one element for
// all. `out` may be the same array as an operand of the same format.
void elementwise_run(const ElementwiseConfig& config, const arith::Operand& a,
                     const arith::Operand* b, const arith::Output& out);
// y = activation(round(round(x * gain) + bias)): the bits of a product, then a sum. The product is
// rounded to config.gain_format, a vector format; the rest is that of binary element-wise work,
// whose `binary` and `function` are not read. `operands` are x, gain and bias; config.inputs are
// the affine ends of x and gain.
void gain_bias_run(const ElementwiseConfig& config, const arith::Operand (&operands)[3],
                   const arith::Output& out);
// The reduction of elements that lie behind each other, in order, as they are (config.before is not
// read); a value of `out`.
double reduce_run(const ReduceConfig& config, const arith::ElementRun& elements, Format out);

// Output rows [rows.first, rows.last) of output channels [channels.first, channels.last).
void pool(const PoolConfig& config, const Surface& input, const Surface& output,
          ChannelRange channels, RowRange rows);
// Operands broadcast through pitches of 0 (their extents equal the output's). `b` is null for
// unary.
void elementwise(const ElementwiseConfig& config, const Surface& a, const Surface* b,
                 const Surface& output, ChannelRange channels, RowRange rows);
// gain_bias_run() over surfaces, which broadcast as above.
void gain_bias(const ElementwiseConfig& config, const Surface (&operands)[3], const Surface& output,
               ChannelRange channels, RowRange rows);
void reduce(const ReduceConfig& config, const Surface& input, const Surface& output,
            ChannelRange channels, RowRange rows);

// A part of a pooling or a reduction: `input` has some of the elements, in their order. What the
// parts have so far of a result lies where `accumulators` has that result's place
// (arith::ReduceAccumulator::store(); column_pitch is at least its bytes).
struct PlanarPart {
  bool continues = false;  // takes up the accumulators; otherwise they begin empty
  bool keeps = false;      // leaves accumulators; otherwise results are written
  Surface accumulators;
};
// The whole task's part: one row range of the output, all its channels.
struct PlanarPartWork {
  const Surface& input;
  const Surface& output;
  RowRange rows;
};
void reduce_part(const ReduceConfig& config, const PlanarPart& part, const PlanarPartWork& work);
// `config` has the part of the window that this part covers.
void pool_part(const PoolConfig& config, const PlanarPart& part, const PlanarPartWork& work);

}  // namespace tessera
