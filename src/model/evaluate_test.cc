// evaluate(): values, differences between opsets, and every kind of refusal and error.
#include "model/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace tessera::model {
namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

template <typename T>
Tensor tensor_of(Format format, const Shape& dims, const std::vector<T>& values) {
  Tensor tensor = Tensor::zeros(format, dims);
  std::copy(values.begin(), values.end(), tensor.as<T>().begin());
  return tensor;
}
Tensor floats(const Shape& dims, const Floats& values) {
  return tensor_of<float>(Format::kF32, dims, values);
}
Tensor longs(const Shape& dims, const Ints& values) {
  return tensor_of<std::int64_t>(Format::kI64, dims, values);
}
Tensor ints(const Shape& dims, const std::vector<std::int32_t>& values) {
  return tensor_of<std::int32_t>(Format::kI32, dims, values);
}
Tensor bytes(const Shape& dims, const std::vector<std::uint8_t>& values) {
  return tensor_of<std::uint8_t>(Format::kU8, dims, values);
}
Tensor signed_bytes(const Shape& dims, const std::vector<std::int8_t>& values) {
  return tensor_of<std::int8_t>(Format::kI8, dims, values);
}

// One node named "n" with as many inputs as tensors.
class Case {
 public:
  explicit Case(const std::string& op_type, std::int64_t opset = 17) : opset_(opset) {
    node_.name = "n";
    node_.op_type = op_type;
    node_.outputs = {"y0"};
  }
  Case& in(Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    present_.push_back(true);
    return *this;
  }
  Case& absent() {
    tensors_.emplace_back();
    present_.push_back(false);
    return *this;
  }
  Case& set(const std::string& name, AttributeValue value) {
    node_.attributes[name] = std::move(value);
    return *this;
  }
  Case& outputs(int count) {
    node_.outputs.clear();
    for (int i = 0; i < count; ++i) node_.outputs.push_back("y" + std::to_string(i));
    return *this;
  }
  Case& domain(const std::string& domain) {
    node_.domain = domain;
    return *this;
  }
  std::string refusal() const { return evaluate_refusal(node_, opset_); }
  Result<std::vector<Tensor>> result() {
    node_.inputs.clear();
    std::vector<const Tensor*> inputs;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      node_.inputs.push_back(present_[i] ? "x" + std::to_string(i) : "");
      inputs.push_back(present_[i] ? &tensors_[i] : nullptr);
    }
    return evaluate(node_, opset_, inputs);
  }
  Tensor value() {
    auto outputs = result();
    EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
    return outputs.ok() ? outputs.value().at(0) : Tensor{};
  }
  std::string error() {
    const auto outputs = result();
    return outputs.ok() ? "no error" : outputs.error().to_string();
  }

 private:
  Node node_;
  std::int64_t opset_;
  std::vector<Tensor> tensors_;
  std::vector<bool> present_;
};

// --- Broadcasting and arithmetic -----------------------------------------------------------------

TEST(EvaluateBroadcast, RowAndColumnMakeAMatrix) {
  EXPECT_EQ(Case("Add").in(floats({2, 1}, {10, 20})).in(floats({3}, {1, 2, 3})).value(),
            floats({2, 3}, {11, 12, 13, 21, 22, 23}));
}

TEST(EvaluateBroadcast, ScalarMeetsAnEmptyTensor) {
  EXPECT_EQ(Case("Mul").in(floats({0, 3}, {})).in(floats({}, {2})).value(), floats({0, 3}, {}));
}

TEST(EvaluateBroadcast, ShapesThatDoNotFitAreShown) {
  EXPECT_EQ(Case("Add").in(floats({2, 3}, Floats(6))).in(floats({4}, Floats(4))).error(),
            "node 'n' (Add): shapes 2x3 and 4 cannot be broadcast together   [invalid model]");
}

TEST(EvaluateBroadcast, BeforeOpset7TheAxisSaysWhereInputOneBegins) {
  EXPECT_EQ(Case("Add", 6)
                .in(floats({2, 3}, {0, 0, 0, 0, 0, 0}))
                .in(floats({2}, {1, 2}))
                .set("broadcast", std::int64_t{1})
                .set("axis", std::int64_t{0})
                .value(),
            floats({2, 3}, {1, 1, 1, 2, 2, 2}));
}

TEST(EvaluateBroadcast, BeforeOpset7ItMustBeAskedFor) {
  EXPECT_EQ(Case("Add", 6).in(floats({2}, {1, 2})).in(floats({1}, {1})).error(),
            "node 'n' (Add): shapes 2 and 1 differ, and attribute 'broadcast' is not set   "
            "[invalid model]");
}

TEST(EvaluateArithmetic, SumsOfFloatsRoundOnce) {
  // In binary32 one after the other, the small ones would vanish.
  EXPECT_EQ(Case("Sum")
                .in(floats({}, {16777216.0F}))
                .in(floats({}, {1.0F}))
                .in(floats({}, {1.0F}))
                .value(),
            floats({}, {16777218.0F}));
}

TEST(EvaluateArithmetic, IntegersWrapAsInC) {
  EXPECT_EQ(Case("Add").in(signed_bytes({1}, {127})).in(signed_bytes({1}, {1})).value(),
            signed_bytes({1}, {-128}));
  EXPECT_EQ(Case("Mul").in(bytes({1}, {200})).in(bytes({1}, {2})).value(), bytes({1}, {144}));
}

TEST(EvaluateArithmetic, IntegerDivisionTruncates) {
  EXPECT_EQ(Case("Div").in(ints({2}, {-7, 7})).in(ints({1}, {2})).value(), ints({2}, {-3, 3}));
}

TEST(EvaluateArithmetic, TheQuotientThatDoesNotFitWraps) {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(Case("Div").in(longs({1}, {lowest})).in(longs({1}, {-1})).value(),
            longs({1}, {lowest}));
}

TEST(EvaluateArithmetic, DivisionOfIntegersByZeroIsAnError) {
  EXPECT_EQ(Case("Div").in(ints({1}, {1})).in(ints({1}, {0})).error(),
            "node 'n' (Div): an integer is divided by zero   [invalid model]");
}

TEST(EvaluateArithmetic, FormatsMustAgree) {
  EXPECT_EQ(Case("Add").in(ints({1}, {1})).in(floats({1}, {0})).error(),
            "node 'n' (Add): input 0 has format i32 and input 1 has format f32, they must agree   "
            "[invalid model]");
}

TEST(EvaluateArithmetic, ModTakesTheDivisorsSignAndFmodTheDividends) {
  const Tensor a = ints({4}, {-4, 7, 5, -7});
  const Tensor b = ints({4}, {2, -3, 8, 3});
  EXPECT_EQ(Case("Mod").in(a).in(b).value(), ints({4}, {0, -2, 5, 2}));
  EXPECT_EQ(Case("Mod").in(a).in(b).set("fmod", std::int64_t{1}).value(), ints({4}, {0, 1, 5, -1}));
}

TEST(EvaluateArithmetic, CastTruncatesTowardZero) {
  EXPECT_EQ(Case("Cast").in(floats({3}, {-1.9F, 1.9F, 3.0F})).set("to", std::int64_t{6}).value(),
            ints({3}, {-1, 1, 3}));
}

// --- Differences between opsets ------------------------------------------------------------------

TEST(EvaluateOpsets, ClipHasAttributesBefore11AndInputsAfter) {
  const Tensor x = floats({3}, {-2, 0, 2});
  EXPECT_EQ(Case("Clip", 6).in(x).set("min", -1.0F).set("max", 1.0F).value(),
            floats({3}, {-1, 0, 1}));
  EXPECT_EQ(Case("Clip", 11).in(x).absent().in(floats({}, {1})).value(), floats({3}, {-2, 0, 1}));
}

TEST(EvaluateOpsets, SqueezeHasAnAttributeBefore13AndAnInputAfter) {
  const Tensor x = floats({1, 2, 1}, {1, 2});
  EXPECT_EQ(Case("Squeeze", 11).in(x).set("axes", Ints{0}).value(), floats({2, 1}, {1, 2}));
  EXPECT_EQ(Case("Squeeze", 13).in(x).in(longs({1}, {-1})).value(), floats({1, 2}, {1, 2}));
  EXPECT_EQ(Case("Squeeze", 13).in(x).value(), floats({2}, {1, 2}));
}

TEST(EvaluateOpsets, ReduceSumHasAnInputFrom13AndReduceMeanFrom18) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(Case("ReduceSum", 11).in(x).set("axes", Ints{0}).value(), floats({1, 2}, {4, 6}));
  EXPECT_EQ(Case("ReduceSum", 13).in(x).in(longs({1}, {0})).value(), floats({1, 2}, {4, 6}));
  EXPECT_EQ(Case("ReduceMean", 18).in(x).in(longs({1}, {1})).value(), floats({2, 1}, {1.5F, 3.5F}));
  EXPECT_EQ(Case("ReduceMean", 13).in(x).in(longs({1}, {1})).error(),
            "node 'n' (ReduceMean): axes are an input from opset 18 on   [invalid model]");
}

TEST(EvaluateOpsets, NoAxesReduceAllOrNothing) {
  const Tensor x = floats({2}, {1, 2});
  EXPECT_EQ(Case("ReduceSum", 13).in(x).value(), floats({1}, {3}));
  EXPECT_EQ(Case("ReduceSum", 13).in(x).set("noop_with_empty_axes", std::int64_t{1}).value(), x);
}

TEST(EvaluateOpsets, SliceHasAttributesBefore10AndInputsAfter) {
  const Tensor x = floats({4}, {0, 1, 2, 3});
  EXPECT_EQ(Case("Slice", 9).in(x).set("starts", Ints{1}).set("ends", Ints{-1}).value(),
            floats({2}, {1, 2}));
  EXPECT_EQ(Case("Slice", 10)
                .in(x)
                .in(longs({1}, {-1}))
                .in(longs({1}, {std::numeric_limits<std::int64_t>::min()}))
                .in(longs({1}, {0}))
                .in(longs({1}, {-2}))
                .value(),
            floats({2}, {3, 1}));
}

TEST(EvaluateOpsets, PadHasAttributesBefore11InputsAfterAndAxesFrom18) {
  const Tensor x = floats({1, 2}, {1, 2});
  EXPECT_EQ(Case("Pad", 2).in(x).set("pads", Ints{0, 1, 0, 0}).set("value", 9.0F).value(),
            floats({1, 3}, {9, 1, 2}));
  EXPECT_EQ(Case("Pad", 11).in(x).in(longs({4}, {0, 0, 0, 1})).value(), floats({1, 3}, {1, 2, 0}));
  EXPECT_EQ(Case("Pad", 18).in(x).in(longs({2}, {1, -1})).absent().in(longs({1}, {1})).value(),
            floats({1, 2}, {0, 1}));
}

TEST(EvaluateOpsets, SoftmaxBefore13NormalisesWholeRows) {
  const Tensor x = floats({1, 2, 2}, {0, 0, 0, 0});
  EXPECT_EQ(Case("Softmax", 11).in(x).value(), floats({1, 2, 2}, {0.25F, 0.25F, 0.25F, 0.25F}));
  EXPECT_EQ(Case("Softmax", 13).in(x).value(), floats({1, 2, 2}, {0.5F, 0.5F, 0.5F, 0.5F}));
}

TEST(EvaluateOpsets, ResizeOfOpset10KnowsNoHalfPixel) {
  const Tensor x = floats({4}, {0, 1, 2, 3});
  const Tensor scales = floats({1}, {2});
  EXPECT_EQ(Case("Resize", 10).in(x).in(scales).value(), floats({8}, {0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(Case("Resize", 13).in(x).absent().in(scales).set("mode", std::string("linear")).value(),
            floats({8}, {0, 0.25F, 0.75F, 1.25F, 1.75F, 2.25F, 2.75F, 3}));
}

TEST(EvaluateOpsets, SplitSharesARestOnlyFrom18) {
  const Tensor x = floats({3}, {1, 2, 3});
  EXPECT_EQ(Case("Split", 13).in(x).outputs(2).error(),
            "node 'n' (Split): length 3 cannot be split into 2 equal parts   [invalid model]");
  EXPECT_EQ(Case("Split", 18).in(x).outputs(2).set("num_outputs", std::int64_t{2}).value(),
            floats({2}, {1, 2}));
}

TEST(EvaluateOpsets, OperatorsYoungerThanTheOpsetAreRefused) {
  EXPECT_EQ(Case("Gelu", 13).refusal(),
            "operator 'Gelu' of opset 13 is not known, it is from opset 20 on");
}

TEST(Evaluate, TheDefinitionInForceIsTheNewestUpToTheOpset) {
  const auto definition = [](const char* op, std::int64_t opset) {
    return definition_of({"n", op, "", {}, {}, {}}, opset);
  };
  EXPECT_EQ(definition("ReduceMax", 17), 13);
  EXPECT_EQ(definition("ReduceMax", 19), 18);
  EXPECT_EQ(definition("Col2Im", 21), 18);
  EXPECT_EQ(definition("Frobnicate", 21), 1);
}

// --- Refusals ------------------------------------------------------------------------------------

TEST(EvaluateRefusal, KnownNodesGiveNoReason) { EXPECT_EQ(Case("Add").refusal(), ""); }

TEST(EvaluateRefusal, UnknownOperatorIsNamed) {
  EXPECT_EQ(Case("Frobnicate").refusal(), "operator 'Frobnicate' is not known");
  EXPECT_EQ(
      Case("Bernoulli").refusal(),
      "operator 'Bernoulli' is refused: it draws at random, so no two runs could be compared");
}

TEST(EvaluateRefusal, UnknownDomainIsNamed) {
  EXPECT_EQ(Case("FusedConv").domain("com.microsoft").refusal(),
            "operator 'FusedConv' of domain 'com.microsoft' is not known");
}

TEST(EvaluateRefusal, UnknownAttributeIsNamed) {
  EXPECT_EQ(Case("Relu").set("slope", 0.1F).refusal(), "attribute 'slope' is not known");
}

TEST(EvaluateRefusal, AttributeOfAnotherTypeIsNamed) {
  EXPECT_EQ(Case("Softmax").set("axis", 1.0F).refusal(), "attribute 'axis' has the wrong type");
}

TEST(EvaluateRefusal, UnknownValueIsShownWithThoseAllowed) {
  EXPECT_EQ(Case("Resize").set("mode", std::string("area")).refusal(),
            "attribute 'mode' is 'area', allowed: nearest|linear|cubic");
  EXPECT_EQ(Case("BatchNormalization").set("spatial", std::int64_t{0}).refusal(),
            "attribute 'spatial' is '0', allowed: 1");
}

TEST(EvaluateRefusal, EvaluateSaysTheSame) {
  EXPECT_EQ(Case("Frobnicate").in(floats({}, {1})).error(),
            "node 'n' (Frobnicate): operator 'Frobnicate' is not known   [unsupported]");
}

TEST(EvaluateRefusal, NamesAreSortedAndDistinct) {
  const std::vector<std::string> names = evaluable_operators();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_GE(names.size(), 140U);
}

// --- Foreign numbers -----------------------------------------------------------------------------

TEST(EvaluateErrors, MissingInputIsNumbered) {
  EXPECT_EQ(Case("MatMul").in(floats({1, 1}, {1})).error(),
            "node 'n' (MatMul): input 1 is missing   [invalid model]");
}

TEST(EvaluateErrors, TooManyInputsAreCounted) {
  EXPECT_EQ(Case("Relu").in(floats({}, {1})).in(floats({}, {1})).error(),
            "node 'n' (Relu): 2 inputs, at most 1 are allowed   [invalid model]");
}

TEST(EvaluateErrors, GatherIndexOutsideTheAxis) {
  EXPECT_EQ(Case("Gather").in(floats({2}, {1, 2})).in(longs({1}, {2})).error(),
            "node 'n' (Gather): index 2 is outside [-2, 1]   [invalid model]");
  EXPECT_EQ(Case("GatherElements").in(floats({2}, {1, 2})).in(longs({1}, {-3})).error(),
            "node 'n' (GatherElements): index -3 is outside [-2, 1]   [invalid model]");
  EXPECT_EQ(Case("GatherND").in(floats({2}, {1, 2})).in(longs({1, 1}, {5})).error(),
            "node 'n' (GatherND): index 5 is outside [-2, 1]   [invalid model]");
}

TEST(EvaluateErrors, PlacesThatAreNoIntegers) {
  for (const char* name : {"Gather", "GatherElements", "GatherND"}) {
    EXPECT_EQ(Case(name).in(floats({2}, {1, 2})).in(floats({1}, {0})).error(),
              std::string("node 'n' (") + name +
                  "): input 1 has format f32, an integer format is needed   [invalid model]");
  }
  for (const char* name : {"ScatterElements", "ScatterND"}) {
    EXPECT_NE(Case(name)
                  .in(floats({2}, {1, 2}))
                  .in(floats({1}, {0}))
                  .in(floats({1}, {0}))
                  .error()
                  .find("an integer format is needed"),
              std::string::npos);
  }
  EXPECT_NE(Case("Trilu").in(floats({1, 1}, {1})).in(floats({}, {0})).error().find("integer"),
            std::string::npos);
}

TEST(EvaluateErrors, ScatterIndexOutsideTheAxis) {
  EXPECT_EQ(Case("ScatterElements")
                .in(floats({2}, {1, 2}))
                .in(longs({1}, {7}))
                .in(floats({1}, {0}))
                .error(),
            "node 'n' (ScatterElements): index 7 is outside [-2, 1]   [invalid model]");
  EXPECT_EQ(Case("ScatterND")
                .in(floats({2}, {1, 2}))
                .in(longs({1, 1}, {-3}))
                .in(floats({1}, {0}))
                .error(),
            "node 'n' (ScatterND): index -3 is outside [-2, 1]   [invalid model]");
}

TEST(EvaluateErrors, AxisOutsideTheRank) {
  EXPECT_EQ(Case("Softmax").in(floats({2}, {1, 2})).set("axis", std::int64_t{3}).error(),
            "node 'n' (Softmax): axis 3 is outside [-1, 0]   [invalid model]");
}

TEST(EvaluateErrors, AxisGivenTwice) {
  EXPECT_EQ(Case("ReduceSum").in(floats({2, 2}, Floats(4))).in(longs({2}, {1, -1})).error(),
            "node 'n' (ReduceSum): axis 1 is given twice   [invalid model]");
}

TEST(EvaluateErrors, TooLargeOutputIsRefusedBeforeItIsAllocated) {
  EXPECT_EQ(Case("Expand").in(floats({1}, {1})).in(longs({3}, {65536, 65536, 4})).error(),
            "node 'n' (Expand): a tensor of shape 65536x65536x4 and format f32 takes more than "
            "2147483648 bytes   [does not fit]");
  EXPECT_EQ(Case("ConstantOfShape").in(longs({2}, {3000000000, 0})).error(),
            "node 'n' (ConstantOfShape): shape 3000000000x0 has a dimension outside "
            "[0, 2147483648]   [invalid model]");
}

TEST(EvaluateErrors, NegativeSizeIsRefused) {
  EXPECT_EQ(Case("ConstantOfShape").in(longs({1}, {-1})).error(),
            "node 'n' (ConstantOfShape): shape -1 has a dimension outside [0, 2147483648]   "
            "[invalid model]");
  EXPECT_EQ(Case("Tile").in(floats({1}, {1})).in(longs({1}, {-2})).error(),
            "node 'n' (Tile): -2 repeats of axis 0   [invalid model]");
}

TEST(EvaluateErrors, OverflowingSizeIsRefused) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Case("Tile").in(floats({2}, {1, 2})).in(longs({1}, {most})).error(),
            "node 'n' (Tile): 9223372036854775807 repeats of axis 0   [invalid model]");
  EXPECT_EQ(Case("Reshape").in(floats({1}, {1})).in(longs({2}, {most, 2})).error(),
            "node 'n' (Reshape): 9223372036854775807x2 is not a shape   [invalid model]");
  EXPECT_EQ(Case("Pad").in(floats({1}, {1})).in(longs({2}, {most, most})).error(),
            "node 'n' (Pad): axis 0 is padded by 9223372036854775807   [invalid model]");
}

TEST(EvaluateErrors, ReshapeThatChangesTheCount) {
  EXPECT_EQ(Case("Reshape").in(floats({2, 3}, Floats(6))).in(longs({2}, {-1, 4})).error(),
            "node 'n' (Reshape): an input of shape 2x3 cannot take the shape -1x4   "
            "[invalid model]");
}

TEST(EvaluateErrors, RangeWithoutEnd) {
  EXPECT_EQ(Case("Range").in(longs({}, {0})).in(longs({}, {5})).in(longs({}, {0})).error(),
            "node 'n' (Range): delta is 0   [invalid model]");
  EXPECT_EQ(Case("Range").in(floats({}, {0})).in(floats({}, {1e20F})).in(floats({}, {1})).error(),
            "node 'n' (Range): a range of 1.0000000200408773e+20 elements, at most 2147483648 are "
            "allowed   [invalid model]");
}

TEST(EvaluateErrors, WindowLargerThanTheInput) {
  EXPECT_EQ(Case("MaxPool").in(floats({1, 1, 2}, {1, 2})).set("kernel_shape", Ints{3}).error(),
            "node 'n' (MaxPool): axis 2: a window of 3 does not fit into 2 with pads 0 and 0   "
            "[invalid model]");
}

TEST(EvaluateErrors, NegativePadNamesTheAttribute) {
  EXPECT_EQ(Case("Conv")
                .in(floats({1, 1, 2}, {1, 2}))
                .in(floats({1, 1, 1}, {1}))
                .set("pads", Ints{-1, 0})
                .error(),
            "node 'n' (Conv): attribute 'pads' holds -1, allowed: 0 to 2147483648   "
            "[invalid model]");
}

TEST(EvaluateErrors, WeightsThatDoNotFitTheGroups) {
  EXPECT_EQ(Case("Conv")
                .in(floats({1, 3, 2}, Floats(6)))
                .in(floats({2, 3, 1}, Floats(6)))
                .set("group", std::int64_t{2})
                .error(),
            "node 'n' (Conv): weights of shape 2x3x1 for an input of shape 1x3x2 in 2 groups   "
            "[invalid model]");
}

TEST(EvaluateErrors, FactorsThatDoNotFit) {
  EXPECT_EQ(Case("MatMul").in(floats({2, 3}, Floats(6))).in(floats({2, 3}, Floats(6))).error(),
            "node 'n' (MatMul): shapes 2x3 and 2x3 cannot be multiplied   [invalid model]");
}

TEST(EvaluateErrors, TrainingIsRefused) {
  EXPECT_EQ(Case("Dropout")
                .in(floats({1}, {1}))
                .in(floats({}, {0.5F}))
                .in(tensor_of<std::uint8_t>(Format::kBool, {}, {1}))
                .error(),
            "node 'n' (Dropout): training mode drops elements at random   [unsupported]");
}

// --- Products ------------------------------------------------------------------------------------

TEST(EvaluateProducts, ConvolutionAddsTheBiasOnce) {
  EXPECT_EQ(Case("Conv")
                .in(floats({1, 1, 3}, {1, 2, 3}))
                .in(floats({1, 1, 2}, {1, 10}))
                .in(floats({1}, {100}))
                .value(),
            floats({1, 1, 2}, {121, 132}));
}

TEST(EvaluateProducts, SameUpperPutsTheOddPadAtTheEnd) {
  const auto run = [](const std::string& pad) {
    return Case("Conv")
        .in(floats({1, 1, 2}, {1, 2}))
        .in(floats({1, 1, 2}, {1, 10}))
        .set("auto_pad", pad)
        .value();
  };
  EXPECT_EQ(run("SAME_UPPER"), floats({1, 1, 2}, {21, 2}));
  EXPECT_EQ(run("SAME_LOWER"), floats({1, 1, 2}, {10, 21}));
}

TEST(EvaluateProducts, QuantisedProductRoundsHalfToEvenAndSaturates) {
  const auto one = [] { return floats({}, {1}); };
  const auto zero = [] { return bytes({}, {0}); };
  // 5 / 2 = 2.5 -> 2; 7 / 2 = 3.5 -> 4; 2000 / 2 -> 255
  EXPECT_EQ(Case("QLinearMatMul")
                .in(bytes({1, 1}, {1}))
                .in(one())
                .in(zero())
                .in(bytes({1, 2}, {5, 7}))
                .in(one())
                .in(zero())
                .in(floats({}, {2}))
                .in(zero())
                .value(),
            bytes({1, 2}, {2, 4}));
}

TEST(EvaluateQuantise, PerAxisScales) {
  EXPECT_EQ(Case("DequantizeLinear")
                .in(signed_bytes({2, 2}, {1, 2, 3, 4}))
                .in(floats({2}, {1, 10}))
                .in(signed_bytes({2}, {1, 0}))
                .set("axis", std::int64_t{0})
                .value(),
            floats({2, 2}, {0, 1, 30, 40}));
}

TEST(EvaluateQuantise, BlocksOfOpset21) {
  EXPECT_EQ(Case("DequantizeLinear", 21)
                .in(signed_bytes({1, 4}, {1, 2, 3, 4}))
                .in(floats({1, 2}, {1, 10}))
                .set("axis", std::int64_t{1})
                .set("block_size", std::int64_t{2})
                .value(),
            floats({1, 4}, {1, 2, 30, 40}));
}

TEST(EvaluateQuantise, ScalesOfTheWrongShape) {
  EXPECT_EQ(Case("DequantizeLinear")
                .in(signed_bytes({2, 3}, {1, 2, 3, 4, 5, 6}))
                .in(floats({2}, {1, 10}))
                .error(),
            "node 'n' (DequantizeLinear): input 1 has shape 2, 3 is needed   [invalid model]");
}

TEST(EvaluateOrder, TopKKeepsTheOrderOfEqualValues) {
  auto outputs = Case("TopK").in(floats({4}, {1, 3, 3, 2})).in(longs({1}, {2})).outputs(2).result();
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(outputs.value()[0], floats({2}, {3, 3}));
  EXPECT_EQ(outputs.value()[1], longs({2}, {1, 2}));
}

TEST(EvaluateOrder, TopKOfMoreThanThereIs) {
  EXPECT_EQ(Case("TopK").in(floats({2}, {1, 3})).in(longs({1}, {3})).outputs(2).error(),
            "node 'n' (TopK): k is 3, axis 0 has 2 elements   [invalid model]");
}

}  // namespace
}  // namespace tessera::model
