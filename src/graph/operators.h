// The lowering functions, one per operator or family, by file. supported.cc names each in its row.
#pragma once

#include "graph/lowering.h"

namespace tessera::graph {

// lower_conv.cc
Lowered lower_conv(Op& op);
Lowered lower_conv_transpose(Op& op);
// lower_attention.cc
Lowered lower_attention(Op& op);
Lowered lower_rotary_embedding(Op& op);
// lower_spectral.cc
Lowered lower_stft(Op& op);
// lower_volume.cc: three spatial axes
Lowered lower_volume_conv(Op& op);
// lower_computed_conv.cc: weights computed at run time
Lowered lower_computed_conv(Op& op);
// lower_matmul.cc
Lowered lower_matmul(Op& op);
Lowered lower_gemm(Op& op);
// lower_pool.cc
Lowered lower_max_pool(Op& op);
Lowered lower_average_pool(Op& op);
Lowered lower_global_average_pool(Op& op);
Lowered lower_global_max_pool(Op& op);
// lower_elementwise.cc
Lowered lower_unary(Op& op);
Lowered lower_clip(Op& op);
Lowered lower_binary(Op& op);
Lowered lower_pow(Op& op);
Lowered lower_n_ary(Op& op);
Lowered lower_mean(Op& op);
Lowered lower_swish(Op& op);
Lowered lower_cast(Op& op);
// lower_select.cc
Lowered lower_comparison(Op& op);
Lowered lower_logic(Op& op);
Lowered lower_where(Op& op);
Lowered lower_arg_extreme(Op& op);
Lowered lower_hardmax(Op& op);
// lower_recurrent.cc: LSTM, GRU, RNN
Lowered lower_recurrent(Op& op);
// lower_reduce.cc
Lowered lower_reduce(Op& op);
Lowered lower_reduce_log_sum(Op& op);
Lowered lower_reduce_log_sum_exp(Op& op);
// lower_normalise.cc
Lowered lower_batch_normalization(Op& op);
Lowered lower_softmax(Op& op);
Lowered lower_log_softmax(Op& op);
Lowered lower_layer_normalization(Op& op);
Lowered lower_instance_normalization(Op& op);
Lowered lower_mean_variance_normalization(Op& op);
// lower_channel_norm.cc
Lowered lower_lrn(Op& op);
Lowered lower_lp_normalization(Op& op);
Lowered lower_rms_normalization(Op& op);
Lowered lower_group_normalization(Op& op);
// lower_indexed.cc
Lowered lower_gather_nd(Op& op);
Lowered lower_gather_elements(Op& op);
Lowered lower_scatter_nd(Op& op);
Lowered lower_scatter_elements(Op& op);
Lowered lower_trilu(Op& op);
Lowered lower_reverse_sequence(Op& op);
// lower_movement.cc
Lowered lower_reshape(Op& op);  // everything that keeps the elements' order
Lowered lower_dropout(Op& op);
Lowered lower_transpose(Op& op);
Lowered lower_slice(Op& op);
Lowered lower_concat(Op& op);
Lowered lower_split(Op& op);
Lowered lower_pad(Op& op);
Lowered lower_expand(Op& op);
Lowered lower_tile(Op& op);
Lowered lower_gather(Op& op);
Lowered lower_depth_to_space(Op& op);
Lowered lower_space_to_depth(Op& op);
// lower_resize.cc
Lowered lower_resize(Op& op);
Lowered lower_upsample(Op& op);
// lower_quantised.cc
Lowered lower_quantize_linear(Op& op);
Lowered lower_dequantize_linear(Op& op);
Lowered lower_qlinear_conv(Op& op);
Lowered lower_qlinear_matmul(Op& op);
Lowered lower_conv_integer(Op& op);
// lower_integer_product.cc
Lowered lower_matmul_integer(Op& op);
// lower_dynamic_quantised.cc
Lowered lower_dynamic_quantize_linear(Op& op);
Lowered lower_computed_quantize(Op& op);    // QuantizeLinear and
Lowered lower_computed_dequantize(Op& op);  // DequantizeLinear of scales computed at run time

// lower_wide_integer.cc: arithmetic and comparisons of 64-bit integers that are known to fit 32
// bits
bool is_wide_integer(Format format);
Lowered lower_wide_integer(Op& op);

}  // namespace tessera::graph
