#include "model/ops/operators.h"

#include <algorithm>
#include <array>

#include "arith/unary_functions.h"
#include "model/ops/algebra.h"
#include "model/ops/attention.h"
#include "model/ops/binary.h"
#include "model/ops/feature.h"
#include "model/ops/generate.h"
#include "model/ops/geometry.h"
#include "model/ops/index.h"
#include "model/ops/layout.h"
#include "model/ops/loss.h"
#include "model/ops/normalise.h"
#include "model/ops/order.h"
#include "model/ops/pool.h"
#include "model/ops/product.h"
#include "model/ops/quantise.h"
#include "model/ops/recurrent.h"
#include "model/ops/reduce.h"
#include "model/ops/resize.h"
#include "model/ops/sample.h"
#include "model/ops/slice.h"
#include "model/ops/spectral.h"
#include "model/ops/unary.h"

namespace tessera::model::ops {

namespace {

// Attributes that several rows share.
constexpr std::string_view kLegacyBroadcast = "broadcast:i axis:i consumed_inputs:is";
constexpr std::string_view kReduceAxes = "axes:is keepdims:i noop_with_empty_axes:i";
constexpr std::string_view kConvAttributes =
    "auto_pad:s=NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations:is group:i kernel_shape:is pads:is "
    "strides:is";

// clang-format off
constexpr auto kMovements = std::to_array<Operator>({
  // name, versions, attributes, inputs (least, most), shape, evaluate

  // Positions renamed or permuted.
  {"Shape", "1 13 15 19 21 23 24", "start:i end:i", 1, 1, shape_shape, no_elements},
  {"Size", "1 13 19 21 23 24", "", 1, 1, size_shape, no_elements},
  {"Reshape", "1 5 13 14 19 21 23 24", "shape:is consumed_inputs:is allowzero:i", 1, 2, reshape_shape, copy_bytes},
  {"Squeeze", "1 11 13 21 23 24", "axes:is", 1, 2, squeeze_shape, copy_bytes},
  {"Unsqueeze", "1 11 13 21 23 24", "axes:is", 1, 2, unsqueeze_shape, copy_bytes},
  {"Flatten", "1 9 11 13 21 23 24", "axis:i", 1, 1, flatten_shape, copy_bytes},
  {"Identity", "1 13 14 16 19 21 23 24", "", 1, 1, same_shape, copy_bytes},
  {"Dropout", "1 6 7 10 12 13 22", "ratio:f seed:i is_test:i consumed_inputs:is", 1, 3, dropout_shape, dropout},
  {"Transpose", "1 13 21 23 24", "perm:is", 1, 1, transpose_shape, transpose},
  {"DepthToSpace", "1 11 13", "blocksize:i mode:s=DCR|CRD", 1, 1, depth_to_space_shape, depth_to_space},
  {"SpaceToDepth", "1 13", "blocksize:i", 1, 1, space_to_depth_shape, space_to_depth},

  // Cut, joined, repeated, padded.
  {"Concat", "1 4 11 13", "axis:i", 1, kAnyNumber, concat_shape, concat},
  {"Split", "1 2 11 13 18", "axis:i split:is num_outputs:i", 1, 2, split_shape, split},
  {"Slice", "1 10 11 13", "axes:is starts:is ends:is", 1, 5, slice_shape, slice},
  {"Expand", "8 13", "", 2, 2, expand_shape, expand},
  {"Tile", "1 6 13", "", 2, 3, tile_shape, tile},
  {"Pad", "1 2 11 13 18 19 21 23 24", "mode:s=constant|reflect|edge|wrap pads:is paddings:is value:f", 1, 4, pad_shape, pad},
  {"CenterCropPad", "18", "axes:is", 2, 2, center_crop_pad_shape, center_crop_pad},
  {"Col2Im", "18", "dilations:is pads:is strides:is", 3, 3, column_to_image_shape, column_to_image},
  {"ReverseSequence", "10", "batch_axis:i time_axis:i", 2, 2, reverse_sequence_shape, reverse_sequence},
  {"Trilu", "14", "upper:i", 1, 2, trilu_shape, trilu},

  // Made from numbers.
  {"Constant", "1 9 11 12 13 19 21 23 24", "value:t value_float:f value_floats:fs value_int:i value_ints:is", 0, 0, constant_shape, no_elements},
  {"ConstantOfShape", "9 20 21 23 24", "value:t", 1, 1, constant_of_shape_shape, constant_of_shape},
  {"Range", "11", "", 3, 3, range_shape, range},
  {"EyeLike", "9 22", "dtype:i k:i", 1, 1, eye_like_shape, eye_like},
  {"OneHot", "9 11", "axis:i", 3, 3, one_hot_shape, one_hot},
  {"HannWindow", "17", "output_datatype:i periodic:i", 1, 1, window_shape, window},
  {"HammingWindow", "17", "output_datatype:i periodic:i", 1, 1, window_shape, window},
  {"BlackmanWindow", "17", "output_datatype:i periodic:i", 1, 1, window_shape, window},

  {"MelWeightMatrix", "17", "output_datatype:i", 5, 5, mel_weight_matrix_shape, mel_weight_matrix},
  {"TfIdfVectorizer", "9", "max_gram_length:i max_skip_count:i min_gram_length:i mode:s=TF|IDF|TFIDF ngram_counts:is ngram_indexes:is pool_int64s:is pool_strings:ss weights:fs", 1, 1, tf_idf_shape, tf_idf},
  {"AffineGrid", "20", "align_corners:i", 2, 2, affine_grid_shape, affine_grid},

  // Positions from a tensor.
  {"Gather", "1 11 13", "axis:i", 2, 2, gather_shape, gather},
  {"GatherElements", "11 13", "axis:i", 2, 2, gather_elements_shape, gather_elements},
  {"GatherND", "11 12 13", "batch_dims:i", 2, 2, gather_nd_shape, gather_nd},
  {"Scatter", "9 11", "axis:i", 3, 3, scatter_elements_shape, scatter_elements},
  {"ScatterElements", "11 13 16 18", "axis:i reduction:s=none|add|mul|max|min", 3, 3, scatter_elements_shape, scatter_elements},
  {"ScatterND", "11 13 16 18", "reduction:s=none|add|mul|max|min", 3, 3, scatter_nd_shape, scatter_nd},
  {"Where", "9 16", "", 3, 3, where_shape, where},
  {"Compress", "9 11", "axis:i", 2, 2, nullptr, compress},
  {"NonZero", "9 13", "", 1, 1, nullptr, non_zero},
  {"Unique", "11", "axis:i sorted:i", 1, 1, nullptr, unique},
  {"TopK", "1 10 11 24", "axis:i k:i largest:i sorted:i", 1, 2, top_k_shape, top_k},
  {"NonMaxSuppression", "10 11", "center_point_box:i", 2, 5, nullptr, non_max_suppression},
  {"CumProd", "26", "exclusive:i reverse:i", 2, 2, cum_sum_shape, cum_sum},
  {"TensorScatter", "24", "axis:i mode:s=linear|circular", 2, 3, tensor_scatter_shape, tensor_scatter},
  {"CumSum", "11 14", "exclusive:i reverse:i", 2, 2, cum_sum_shape, cum_sum},
});

constexpr auto kOperators = std::to_array<Operator>({
  // One tensor, element by element, besides the functions of arith/unary_functions.h.
  {"Shrink", "9", "bias:f lambd:f", 1, 1, same_shape, shrink},
  {"Clip", "1 6 11 12 13", "min:f max:f consumed_inputs:is", 1, 3, clip_shape, clip},
  {"Cast", "6 9 13 19 21 23 24", "to:i saturate:i", 1, 1, cast_shape, cast},
  {"BitCast", "26", "to:i", 1, 1, bit_cast_shape, copy_bytes},
  {"Swish", "24", "alpha:f", 1, 1, float_same_shape, swish},
  {"SwiGLU", "28", "alpha:f", 2, 2, gated_shape, swish},
  {"CastLike", "15 19 21 23 24", "saturate:i", 2, 2, cast_like_shape, cast},
  {"IsNaN", "9 13 20", "", 1, 1, float_to_bool_shape, is_nan},
  {"IsInf", "10 20", "detect_negative:i detect_positive:i", 1, 1, float_to_bool_shape, is_inf},
  {"Not", "1", "", 1, 1, not_shape, logical_not},
  {"BitwiseNot", "18", "", 1, 1, integer_same_shape, bitwise_not},

  // Several tensors, broadcast, element by element.
  {"Add", "1 6 7 13 14", kLegacyBroadcast, 2, 2, binary_shape, arithmetic},
  {"Sub", "1 6 7 13 14", kLegacyBroadcast, 2, 2, binary_shape, arithmetic},
  {"Mul", "1 6 7 13 14", kLegacyBroadcast, 2, 2, binary_shape, arithmetic},
  {"Div", "1 6 7 13 14", kLegacyBroadcast, 2, 2, binary_shape, arithmetic},
  {"PRelu", "1 6 7 9 16", "consumed_inputs:is", 2, 2, prelu_shape, arithmetic},
  {"Pow", "1 7 12 13 15", kLegacyBroadcast, 2, 2, power_shape, power},
  {"Mod", "10 13", "fmod:i", 2, 2, modulo_shape, modulo},
  {"BitShift", "11", "direction:s=LEFT|RIGHT", 2, 2, bit_shift_shape, bit_operation},
  {"BitwiseAnd", "18", "", 2, 2, integer_shape, bit_operation},
  {"BitwiseOr", "18", "", 2, 2, integer_shape, bit_operation},
  {"BitwiseXor", "18", "", 2, 2, integer_shape, bit_operation},
  {"And", "1 7", kLegacyBroadcast, 2, 2, logical_shape, logical},
  {"Or", "1 7", kLegacyBroadcast, 2, 2, logical_shape, logical},
  {"Xor", "1 7", kLegacyBroadcast, 2, 2, logical_shape, logical},
  {"Equal", "1 7 11 13 19", kLegacyBroadcast, 2, 2, comparison_shape, comparison},
  {"Less", "1 7 9 13", kLegacyBroadcast, 2, 2, comparison_shape, comparison},
  {"LessOrEqual", "12 16", "", 2, 2, comparison_shape, comparison},
  {"Greater", "1 7 9 13", kLegacyBroadcast, 2, 2, comparison_shape, comparison},
  {"GreaterOrEqual", "12 16", "", 2, 2, comparison_shape, comparison},
  {"Max", "1 6 8 12 13", "consumed_inputs:is", 1, kAnyNumber, variadic_shape, variadic},
  {"Min", "1 6 8 12 13", "consumed_inputs:is", 1, kAnyNumber, variadic_shape, variadic},
  {"Sum", "1 6 8 13", "consumed_inputs:is", 1, kAnyNumber, variadic_shape, variadic},
  {"Mean", "1 6 8 13", "consumed_inputs:is", 1, kAnyNumber, variadic_shape, variadic},

  // Along axes.
  {"ReduceSum", "1 11 13", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceMean", "1 11 13 18", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceMax", "1 11 12 13 18 20", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceMin", "1 11 12 13 18 20", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceProd", "1 11 13 18", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceL1", "1 11 13 18", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceL2", "1 11 13 18", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceSumSquare", "1 11 13 18", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceLogSum", "1 11 13 18", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ReduceLogSumExp", "1 11 13 18", kReduceAxes, 1, 2, reduce_shape, reduce},
  {"ArgMax", "1 11 12 13", "axis:i keepdims:i select_last_index:i", 1, 1, arg_reduce_shape, arg_reduce},
  {"ArgMin", "1 11 12 13", "axis:i keepdims:i select_last_index:i", 1, 1, arg_reduce_shape, arg_reduce},
  {"Softmax", "1 11 13", "axis:i", 1, 1, softmax_shape, softmax},
  {"LogSoftmax", "1 11 13", "axis:i", 1, 1, softmax_shape, softmax},
  {"Hardmax", "1 11 13", "axis:i", 1, 1, softmax_shape, softmax},

  // Products.
  {"MatMul", "1 9 13", "", 2, 2, matmul_shape, matmul},
  {"Gemm", "1 6 7 9 11 13", "alpha:f beta:f broadcast:i transA:i transB:i", 2, 3, gemm_shape, gemm},
  {"Conv", "1 11 22", kConvAttributes, 2, 3, conv_shape, conv},
  {"ConvTranspose", "1 11 22", "auto_pad:s=NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations:is group:i kernel_shape:is output_padding:is output_shape:is pads:is strides:is", 2, 3, conv_transpose_shape, conv_transpose},
  {"MatMulInteger", "10", "", 2, 4, matmul_integer_shape, matmul_integer},
  {"ConvInteger", "10", kConvAttributes, 2, 4, conv_integer_shape, conv_integer},
  {"QLinearMatMul", "10 21", "", 8, 8, qlinear_matmul_shape, qlinear_matmul},
  {"QLinearConv", "10", kConvAttributes, 8, 9, qlinear_conv_shape, qlinear_conv},
  {"DeformConv", "19 22", "dilations:is group:i kernel_shape:is offset_group:i pads:is strides:is", 3, 5, deform_conv_shape, deform_conv},
  {"Einsum", "12", "equation:s", 1, kAnyNumber, einsum_shape, einsum},
  {"Det", "11 22", "", 1, 1, determinant_shape, determinant},
  {"DFT", "17 20", "axis:i inverse:i onesided:i", 1, 3, dft_shape, dft},
  {"STFT", "17", "onesided:i", 2, 4, stft_shape, stft},

  // Pooling.
  {"MaxPool", "1 8 10 11 12 22", "auto_pad:s=NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode:i dilations:is kernel_shape:is pads:is storage_order:i strides:is", 1, 1, max_pool_shape, max_pool},
  {"AveragePool", "1 7 10 11 19 22", "auto_pad:s=NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode:i count_include_pad:i dilations:is kernel_shape:is pads:is strides:is", 1, 1, average_pool_shape, average_pool},
  {"LpPool", "2 11 18 22", "auto_pad:s=NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode:i dilations:is kernel_shape:is p:i pads:is strides:is", 1, 1, average_pool_shape, lp_pool},
  {"GlobalMaxPool", "1 22", "", 1, 1, global_pool_shape, global_pool},
  {"GlobalAveragePool", "1 22", "", 1, 1, global_pool_shape, global_pool},
  {"GlobalLpPool", "2 22", "p:i", 1, 1, global_pool_shape, global_pool},
  {"MaxUnpool", "9 11 22", "kernel_shape:is pads:is strides:is", 2, 3, max_unpool_shape, max_unpool},

  // Normalisation.
  {"BatchNormalization", "1 6 7 9 14 15", "epsilon:f momentum:f spatial:i=1 is_test:i training_mode:i consumed_inputs:is", 5, 5, batch_normalization_shape, batch_normalization},
  {"InstanceNormalization", "1 6 22", "epsilon:f consumed_inputs:is", 3, 3, channel_normalization_shape, channel_normalization},
  {"GroupNormalization", "18 21", "epsilon:f num_groups:i stash_type:i", 3, 3, channel_normalization_shape, channel_normalization},
  {"LayerNormalization", "17", "axis:i epsilon:f stash_type:i=1", 2, 3, layer_normalization_shape, layer_normalization},
  {"RMSNormalization", "23", "axis:i epsilon:f stash_type:i=1", 2, 2, rms_normalization_shape, rms_normalization},
  {"LRN", "1 13", "alpha:f beta:f bias:f size:i", 1, 1, lrn_shape, lrn},
  {"MeanVarianceNormalization", "9 13", "axes:is", 1, 1, mean_variance_shape, mean_variance},
  {"LpNormalization", "1 22", "axis:i p:i=1|2", 1, 1, lp_normalization_shape, lp_normalization},

  // Between the elements.
  {"Resize", "10 11 13 18 19", "antialias:i axes:is coordinate_transformation_mode:s=half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|tf_half_pixel_for_nn|tf_crop_and_resize cubic_coeff_a:f exclude_outside:i extrapolation_value:f keep_aspect_ratio_policy:s=stretch|not_larger|not_smaller mode:s=nearest|linear|cubic nearest_mode:s=round_prefer_floor|round_prefer_ceil|floor|ceil", 1, 4, resize_shape, resize},
  {"Upsample", "7 9", "mode:s=nearest|linear|bilinear scales:fs", 1, 2, resize_shape, resize},
  {"GridSample", "16 20 22", "align_corners:i mode:s=linear|cubic|bilinear|nearest|bicubic padding_mode:s=zeros|border|reflection", 2, 2, grid_sample_shape, grid_sample},
  {"RoiAlign", "10 16 22", "coordinate_transformation_mode:s=half_pixel|output_half_pixel mode:s=avg|max output_height:i output_width:i sampling_ratio:i spatial_scale:f", 3, 3, roi_align_shape, roi_align},
  {"MaxRoiPool", "1 22", "pooled_shape:is spatial_scale:f", 2, 2, max_roi_pool_shape, max_roi_pool},

  // Attention.
  {"Attention", "23 24", "is_causal:i kv_num_heads:i q_num_heads:i qk_matmul_output_mode:i=0|1|2|3 scale:f softcap:f softmax_precision:i", 3, 7, attention_shape, attention},
  {"RotaryEmbedding", "23", "interleaved:i num_heads:i rotary_embedding_dim:i", 3, 4, rotary_embedding_shape, rotary_embedding},
  {"LinearAttention", "27", "chunk_size:i kv_num_heads:i q_num_heads:i scale:f update_rule:s=linear|gated|delta|gated_delta", 3, 6, linear_attention_shape, linear_attention},
  {"CausalConvWithState", "27", "activation:s=none|silu|swish", 2, 4, causal_conv_shape, causal_conv},

  // Over time.
  {"RNN", "7 14 22", "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s=forward|reverse|bidirectional hidden_size:i layout:i", 3, 6, recurrent_shape, recurrent},
  {"GRU", "7 14 22", "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s=forward|reverse|bidirectional hidden_size:i layout:i linear_before_reset:i", 3, 6, recurrent_shape, recurrent},
  {"LSTM", "7 14 22", "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s=forward|reverse|bidirectional hidden_size:i input_forget:i layout:i", 3, 8, recurrent_shape, recurrent},

  // Losses.
  {"NegativeLogLikelihoodLoss", "12 13 22", "ignore_index:i reduction:s=none|mean|sum", 2, 3, loss_shape, loss},
  {"SoftmaxCrossEntropyLoss", "12 13", "ignore_index:i reduction:s=none|mean|sum", 2, 3, loss_shape, loss},

  // Affine integers.
  {"QuantizeLinear", "10 13 19 21 23 24", "axis:i block_size:i output_dtype:i precision:i=0|1 saturate:i", 2, 3, quantize_linear_shape, quantize_linear},
  {"DequantizeLinear", "10 13 19 21 23 24", "axis:i block_size:i output_dtype:i", 2, 3, dequantize_linear_shape, dequantize_linear},
  {"DynamicQuantizeLinear", "11", "", 1, 1, dynamic_quantize_linear_shape, dynamic_quantize_linear},
});
// clang-format on

// The functions of arith/unary_functions.h that are operators.
constexpr auto kFunctions = [] {
  std::array<Operator, kUnaryOperators.size()> rows{};
  std::ranges::transform(kUnaryOperators, rows.begin(), [](const UnaryRow& row) -> Operator {
    const UnaryOperator& onnx = row.onnx;
    if (onnx.integers == UnaryOperator::Integers::kNone) {
      return {onnx.name, onnx.versions, onnx.attributes, 1, 1, float_same_shape, float_function};
    }
    return {onnx.name, onnx.versions, onnx.attributes, 1, 1, same_shape, numeric_function};
  });
  return rows;
}();

template <std::size_t... kCounts>
constexpr auto join(const std::array<Operator, kCounts>&... parts) {
  std::array<Operator, (kCounts + ...)> all{};
  auto next = all.begin();
  ((next = std::copy(parts.begin(), parts.end(), next)), ...);
  return all;
}

constexpr auto kAllOperators = join(kMovements, kFunctions, kOperators);

}  // namespace

std::span<const Operator> operators() { return kAllOperators; }

}  // namespace tessera::model::ops
