#include "graph/supported.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "arith/unary_functions.h"
#include "graph/operators.h"
#include "model/contrib/contrib_names.h"
#include "model/evaluate.h"
#include "model/infer.h"

namespace tessera::graph {

namespace {

constexpr std::int64_t kLatest = 28;

constexpr std::string_view kUnary = "element-wise";
constexpr std::string_view kFloatOnly = "integers: host";
constexpr std::string_view kNumbers = "integers of 64 bits, f64: host";
constexpr std::string_view kKnownNumbers = "integers of 64 bits that may not fit 32, f64: host";
constexpr std::string_view kConstantIndices = "indices computed at run time: host";

constexpr auto kOperators = std::to_array<SupportedOperator>({
    // Products.
    {"Conv", 1, kLatest, lower_conv, "convolution (between Q/DQ: integer)",
     "computed weights: matrix product; 3 spatial axes: depth taps as channels"},
    {"ConvTranspose", 1, kLatest, lower_conv_transpose, "convolution with input dilation",
     "computed weights: matrix product; 3 spatial axes: host"},
    {"ConvInteger", 10, kLatest, lower_conv_integer, "integer convolution",
     "int32 result; zero point of x computed at run time: element-wise"},
    {"QLinearConv", 10, kLatest, lower_qlinear_conv, "integer convolution",
     "scales and zero points are constants"},
    {"Gemm", 7, kLatest, lower_gemm, "matrix product (between Q/DQ: integer), element-wise",
     kFloatOnly},
    {"MatMul", 1, kLatest, lower_matmul, "matrix product (between Q/DQ: integer), move",
     kFloatOnly},
    {"MatMulInteger", 10, kLatest, lower_matmul_integer, "integer matrix product",
     "int32 result; zero points computed at run time: reduction, element-wise"},
    {"QLinearMatMul", 10, kLatest, lower_qlinear_matmul, "integer matrix product",
     "scales and zero points are constants; one for A"},
    {"STFT", 17, kLatest, lower_stft, "matrix product", "complex signals: host"},
    // Pooling and reduction.
    {"AveragePool", 1, kLatest, lower_average_pool, "pooling", "3 spatial axes: two passes"},
    {"MaxPool", 1, kLatest, lower_max_pool, "pooling",
     "3 spatial axes: two passes; output Indices: host"},
    {"GlobalAveragePool", 1, kLatest, lower_global_average_pool, "reduction", ""},
    {"GlobalMaxPool", 1, kLatest, lower_global_max_pool, "reduction", ""},
    {"ReduceL1", 1, kLatest, lower_reduce, "reduction", kNumbers},
    {"ReduceL2", 1, kLatest, lower_reduce, "reduction", kFloatOnly},
    {"ReduceLogSum", 1, kLatest, lower_reduce_log_sum, "reduction, element-wise", kFloatOnly},
    {"ReduceLogSumExp", 1, kLatest, lower_reduce_log_sum_exp, "reduction, element-wise",
     kFloatOnly},
    {"ReduceMax", 1, kLatest, lower_reduce, "reduction", kNumbers},
    {"ReduceMean", 1, kLatest, lower_reduce, "reduction", kFloatOnly},
    {"ReduceMin", 1, kLatest, lower_reduce, "reduction", kNumbers},
    {"ReduceProd", 1, kLatest, lower_reduce, "reduction", kFloatOnly},
    {"ReduceSum", 1, kLatest, lower_reduce, "reduction", kNumbers},
    {"ReduceSumSquare", 1, kLatest, lower_reduce, "reduction", kNumbers},
    {"ArgMax", 1, kLatest, lower_arg_extreme, "reduction, element-wise", kNumbers},
    {"ArgMin", 1, kLatest, lower_arg_extreme, "reduction, element-wise", kNumbers},
    {"Hardmax", 1, kLatest, lower_hardmax, "reduction, element-wise", ""},
    // Recurrence.
    {"GRU", 7, kLatest, lower_recurrent, "matrix products, element-wise, unrolled over time",
     "sequence lengths computed at run time: host"},
    {"LSTM", 7, kLatest, lower_recurrent, "matrix products, element-wise, unrolled over time",
     "sequence lengths computed at run time: host"},
    {"RNN", 7, kLatest, lower_recurrent, "matrix products, element-wise, unrolled over time",
     "sequence lengths computed at run time: host"},
    // Normalisation.
    {"BatchNormalization", 7, kLatest, lower_batch_normalization,
     "folded into the convolution before it, else element-wise", "training form: host"},
    {"GroupNormalization", 18, kLatest, lower_group_normalization, "reduction, element-wise", ""},
    {"InstanceNormalization", 6, kLatest, lower_instance_normalization, "reduction, element-wise",
     ""},
    {"LayerNormalization", 17, kLatest, lower_layer_normalization, "reduction, element-wise", ""},
    {"LRN", 1, kLatest, lower_lrn, "pooling, element-wise", ""},
    {"LogSoftmax", 1, kLatest, lower_log_softmax, "reduction, element-wise", ""},
    {"LpNormalization", 1, kLatest, lower_lp_normalization, "reduction, element-wise", ""},
    {"MeanVarianceNormalization", 9, kLatest, lower_mean_variance_normalization,
     "reduction, element-wise", ""},
    {"RMSNormalization", 23, kLatest, lower_rms_normalization, "reduction, element-wise", ""},
    {"Softmax", 1, kLatest, lower_softmax, "reduction, element-wise", ""},
    // Two inputs and more.
    {"Add", 7, kLatest, lower_binary, kUnary, kKnownNumbers},
    {"Div", 7, kLatest, lower_binary, kUnary, kNumbers},
    {"Max", 6, kLatest, lower_n_ary, kUnary, kKnownNumbers},
    {"Mean", 6, kLatest, lower_mean, kUnary, ""},
    {"Min", 6, kLatest, lower_n_ary, kUnary, kKnownNumbers},
    {"Mul", 7, kLatest, lower_binary, kUnary, kKnownNumbers},
    {"PRelu", 7, kLatest, lower_binary, kUnary, kFloatOnly},
    {"Pow", 7, kLatest, lower_pow, kUnary, "exponent 2 is a square; integers: host"},
    {"Sub", 7, kLatest, lower_binary, kUnary, kKnownNumbers},
    {"Sum", 6, kLatest, lower_n_ary, kUnary, kNumbers},
    // Attention.
    {"Attention", 23, kLatest, lower_attention, "matrix products, reduction, element-wise",
     "scores as an output, nonpad_kv_seqlen: host"},
    {"RotaryEmbedding", 23, kLatest, lower_rotary_embedding, "move, element-wise",
     "positions computed at run time: host"},
    // Comparison, logic, choice.
    {"And", 7, kLatest, lower_logic, kUnary, ""},
    {"Equal", 7, kLatest, lower_comparison, kUnary, kKnownNumbers},
    {"Greater", 7, kLatest, lower_comparison, kUnary, kKnownNumbers},
    {"GreaterOrEqual", 12, kLatest, lower_comparison, kUnary, kKnownNumbers},
    {"IsNaN", 9, kLatest, lower_logic, kUnary, kNumbers},
    {"Less", 7, kLatest, lower_comparison, kUnary, kKnownNumbers},
    {"LessOrEqual", 12, kLatest, lower_comparison, kUnary, kKnownNumbers},
    {"Not", 1, kLatest, lower_logic, kUnary, ""},
    {"Or", 7, kLatest, lower_logic, kUnary, ""},
    {"Where", 9, kLatest, lower_where, "element-wise, three passes", kNumbers},
    {"Xor", 7, kLatest, lower_logic, kUnary, ""},
});

// Of one input, by name, besides the functions of arith/unary_functions.h.
constexpr auto kOneInput = std::to_array<SupportedOperator>({
    {"Cast", 6, kLatest, lower_cast, "element-wise",
     "between integers of 64 bits, to int4, float8 and the like: host"},
    {"CastLike", 15, kLatest, lower_cast, "element-wise", "between integers of 64 bits: host"},
    {"Clip", 6, kLatest, lower_clip, kUnary, kNumbers},
    {"DequantizeLinear", 10, kLatest, lower_dequantize_linear, kUnary,
     "scales computed at run time: two passes; blocked scales, of float8 and float4: host"},
    {"DynamicQuantizeLinear", 11, kLatest, lower_dynamic_quantize_linear, "reduction, element-wise",
     ""},
    {"QuantizeLinear", 10, kLatest, lower_quantize_linear, kUnary,
     "scales computed at run time: two passes; blocked scales, to int4, float8 and the like: host"},
    {"Swish", 24, kLatest, lower_swish, kUnary, "alpha other than 1: three passes"},
});

constexpr auto kMovements = std::to_array<SupportedOperator>({
    // Movement, of every format.
    {"Concat", 4, kLatest, lower_concat, "move", ""},
    {"DepthToSpace", 1, kLatest, lower_depth_to_space, "move", ""},
    {"Dropout", 7, kLatest, lower_dropout, "move", "output mask or training form: host"},
    {"Expand", 8, kLatest, lower_expand, "move", ""},
    {"Flatten", 1, kLatest, lower_reshape, "move", ""},
    {"Gather", 1, kLatest, lower_gather, "move", "indices computed at run time: host"},
    {"GatherElements", 11, kLatest, lower_gather_elements, "move", kConstantIndices},
    {"GatherND", 11, kLatest, lower_gather_nd, "move", kConstantIndices},
    {"Identity", 1, kLatest, lower_reshape, "move", ""},
    {"Pad", 2, kLatest, lower_pad, "move", "pads computed at run time: host"},
    {"Reshape", 1, kLatest, lower_reshape, "move", ""},
    {"Resize", 10, kLatest, lower_resize, "move; linear, cubic: products with constant matrices",
     "tf_crop_and_resize with weights: host"},
    {"ReverseSequence", 10, kLatest, lower_reverse_sequence, "move",
     "lengths computed at run time: host"},
    {"Scatter", 9, 10, lower_scatter_elements, "move", kConstantIndices},
    {"ScatterElements", 11, kLatest, lower_scatter_elements, "move",
     "computed indices, reductions: host"},
    {"ScatterND", 11, kLatest, lower_scatter_nd, "move", "computed indices, reductions: host"},
    {"Slice", 1, kLatest, lower_slice, "move", "starts computed at run time: host"},
    {"SpaceToDepth", 1, kLatest, lower_space_to_depth, "move", ""},
    {"Split", 2, kLatest, lower_split, "move", ""},
    {"Squeeze", 1, kLatest, lower_reshape, "move", ""},
    {"Tile", 6, kLatest, lower_tile, "move", ""},
    {"Transpose", 1, kLatest, lower_transpose, "move", ""},
    {"Trilu", 14, kLatest, lower_trilu, "move", "diagonal computed at run time: host"},
    {"Unsqueeze", 1, kLatest, lower_reshape, "move", ""},
    {"Upsample", 7, 9, lower_upsample, "move; linear: products with constant matrices", ""},
});

constexpr std::string_view note_of(UnaryOperator::Integers integers) {
  switch (integers) {
    case UnaryOperator::Integers::kNone:
      return "";
    case UnaryOperator::Integers::kNarrow:
      return kNumbers;
    case UnaryOperator::Integers::kWide:
      break;
  }
  return kKnownNumbers;
}

// The functions of arith/unary_functions.h that are operators.
constexpr auto kFunctions = [] {
  std::array<SupportedOperator, kUnaryOperators.size()> rows{};
  std::ranges::transform(kUnaryOperators, rows.begin(), [](const UnaryRow& row) {
    return SupportedOperator{row.onnx.name, row.onnx.opset_min,        kLatest, lower_unary,
                             kUnary,        note_of(row.onnx.integers)};
  });
  return rows;
}();

constexpr auto kAllOperators = [] {
  std::array<SupportedOperator,
             kOperators.size() + kFunctions.size() + kOneInput.size() + kMovements.size()>
      all{};
  const auto one_input = std::ranges::copy(kOperators, all.begin()).out;
  const auto rest = std::ranges::copy(kOneInput, std::ranges::copy(kFunctions, one_input).out).out;
  std::ranges::sort(one_input, rest, {}, &SupportedOperator::name);
  std::ranges::copy(kMovements, rest);
  return all;
}();

// Of operators of com.microsoft, whose masks and lengths are read from more than an operator's own attributes.
constexpr const char* kOfAttention =
    R"(Masks of Attention, MultiHeadAttention and QAttention are [batch, keys], [batch, queries, keys], the lengths [batch], or
ends and starts [2 * batch]. Which of them a mask is, and whether keys come by heads, is read from the shapes that the
model states; where it states none, a mask is [batch, keys] and keys have three dimensions.

GroupQueryAttention puts new rows of keys and values behind those that `seqlens_k` counts, sequence by sequence.
Past and present are one buffer of a fixed length where the model states the same length of both, or where constants and
shapes say that `total_sequence_length` is at most that of the past; where it is an input and nothing is stated of the
present, its value decides. Else the present is longer than the past by the new rows. Rows that nothing was written to are
zeros; a length behind the last row is an error of the run.

)";

}  // namespace

std::span<const SupportedOperator> supported_operators() { return kAllOperators; }

const SupportedOperator* find_supported(const std::string& domain, const std::string& name,
                                        std::int64_t opset) {
  if (!domain.empty() && domain != "ai.onnx") return nullptr;
  for (const SupportedOperator& row : kAllOperators) {
    if (row.name == name && row.opset_min <= opset && opset <= row.opset_max) return &row;
  }
  return nullptr;
}

std::string supported_operators_markdown() {
  std::string text =
      "# Supported operators\n\n"
      "This page is generated from the table that lowering uses (`src/graph/supported.cc`).\n"
      "An operator that the processor does not run is a host step: it is counted and printed. One\n"
      "that the host does not run either is an error that names node and operator.\n\n"
      "Values that are known at compile time are folded, whatever the operator. A float is f32,\n"
      "f16 or bf16; f64 and 64-bit integers are moved and converted, their arithmetic is the\n"
      "host's, except for values known to fit 32 bits, such as positions. Integers of at most 32\n"
      "bits wrap around as in ONNX.\n\n"
      "## On the processor\n\n"
      "| operator | opsets | runs as | remarks |\n| --- | --- | --- | --- |\n";
  for (const SupportedOperator& row : kAllOperators) {
    text += fmt::format("| {} | {} to {} | {} | {} |\n", row.name, row.opset_min, row.opset_max,
                        row.runs_as, row.note);
  }
  text += "\n## On the host\n\nOperators above where the remark names the host, and these:\n\n";
  for (const std::string& name : model::evaluable_operators()) {
    bool listed = false;
    for (const SupportedOperator& row : kAllOperators) listed |= row.name == name;
    if (!listed) text += fmt::format("- {}\n", name);
  }
  text +=
      "\nRandomNormal, RandomNormalLike, RandomUniform and RandomUniformLike are one sample, a "
      "constant of "
      "the network\nthat its notes name: a function of the node's name and its attribute seed, the "
      "same on "
      "every device. Sums of twelve\nuniform numbers stand for normal ones. Bernoulli and "
      "Multinomial, "
      "which draw by data, are errors.\n";
  text +=
      "\n## Taken apart\n\nControl flow and sequences are replaced by the nodes that run while\n"
      "shapes are inferred: a body once per iteration, a sequence as its tensors. How often a\n"
      "body runs must be known for one network; where data decides it, the model runs in parts\n"
      "(runtime.md). How long a sequence is must be known at compile time. A condition that is\n"
      "data runs both branches and picks.\n\n";
  for (const std::string& name : model::expanded_operators()) text += fmt::format("- {}\n", name);
  text +=
      "\n## Of com.microsoft\n\nWhat converters and quantisers of ONNX Runtime write is written "
      "out in operators of the\n"
      "standard when a model is read (`src/model/contrib/`). QuantizeLinear and DequantizeLinear "
      "are those of the\n"
      "standard. DynamicQuantizeLSTM has the values of its 8-bit weights and multiplies them with "
      "its inputs as they\n"
      "are. An attribute or a layout that is not known is an error which names it.\n\n";
  text += kOfAttention;
  for (const std::string& name : model::contrib_operators()) text += fmt::format("- {}\n", name);
  text +=
      "\n## Of ai.onnx.ml\n\nLikewise, on numbers, in f64 on the host: columns of a table are as "
      "large as they "
      "come. An ensemble of trees\n"
      "is walked a level a step, all rows and trees at once. ZipMap gives the tensor of its "
      "scores, "
      "not maps; categories that\n"
      "a OneHotEncoder does not list are zeros. Labels that are text come as their places in the "
      "list, "
      "with a note; keys\n"
      "and categories that are text are an error.\n\n";
  for (const std::string& name : model::machine_learning_operators()) {
    text += fmt::format("- {}\n", name);
  }
  text +=
      "\n## Of ai.onnx before it was stable\n\nConverters of Core ML, CNTK and Caffe2 wrote them; "
      "they are written out likewise.\n\n";
  for (const std::string& name : model::former_operators()) text += fmt::format("- {}\n", name);
  return text;
}

}  // namespace tessera::graph
