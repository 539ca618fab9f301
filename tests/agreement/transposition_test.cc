// Any permutation of any tensor, by any way: the simulated core, the host and the reference give
// the same bits, and where nothing but movement happens they are the bits of the input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "host/executor.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::TranspositionWay;
using compile::testing::GraphBuilder;
using graph::TensorId;

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  Shape dims(std::int64_t rank, std::int64_t elements_max) {
    Shape dims(static_cast<std::size_t>(rank), 1);
    std::int64_t count = 1;
    for (std::int64_t& extent : dims) {
      const std::int64_t most = std::clamp<std::int64_t>(elements_max / count, 1, 150);
      extent = pick(0, 2) == 0 ? pick(1, most) : pick(1, std::min<std::int64_t>(most, 12));
      count *= extent;
    }
    std::shuffle(dims.begin(), dims.end(), random_);
    return dims;
  }
  std::vector<std::int64_t> permutation(std::size_t rank) {
    std::vector<std::int64_t> axes(rank);
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
    std::shuffle(axes.begin(), axes.end(), random_);
    return axes;
  }
  void fill(std::vector<std::byte>& bytes) {
    for (std::byte& b : bytes) b = static_cast<std::byte>(random_());
  }

 private:
  std::mt19937_64 random_;
};

struct Case {
  const char* name;
  const char* chip;
  std::int32_t buffer_bytes;  // a partition; 0: the profile's
  compile::CompileOptions options;
};

std::vector<Case> cases() {
  using compile::CompileOptions;
  const auto with = [](std::optional<TranspositionWay> way, bool choose) {
    CompileOptions options;
    options.transposition = way;
    options.choose_views = choose;
    return options;
  };
  return {{"cheapest", "tessera128", 0, with(std::nullopt, true)},
          {"fixed views", "tessera128", 0, with(std::nullopt, false)},
          {"array", "tessera128", 0, with(TranspositionWay::kArray, false)},
          {"planar", "tessera128", 0, with(TranspositionWay::kPlanar, false)},
          {"dma", "tessera128", 0, with(TranspositionWay::kDma, false)},
          {"half as wide", "pe128x64", 0, with(TranspositionWay::kArray, false)},
          {"small arrays", "edge", 0, with(TranspositionWay::kArray, true)},
          {"small buffer", "tessera128", 1024, with(std::nullopt, false)}};
}

void expect_equal(const std::vector<Tensor>& expected, const std::vector<Tensor>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(expected[i] == found[i]) << "output " << i;
  }
}

// The reference's outputs, to which the other devices are held.
std::vector<Tensor> check(const std::shared_ptr<const graph::Graph>& graph,
                          const std::vector<Tensor>& inputs) {
  const auto expected = run_reference(graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.error().to_string();
  const auto host = host::make_host_executor(graph, {.threads = 1});
  EXPECT_TRUE(host.ok());
  const auto on_host = (*host)->run(inputs);
  EXPECT_TRUE(on_host.ok()) << on_host.error().to_string();
  expect_equal(*expected, *on_host);
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    ChipConfig chip = *load_chip_config(each.chip);
    if (each.buffer_bytes != 0) chip.state_buffer.bytes_per_partition = each.buffer_bytes;
    const auto program = build_program(graph, chip, each.options);
    if (!program.ok() && each.buffer_bytes != 0 && program.error().code == ErrorCode::kDoesNotFit) {
      continue;
    }
    EXPECT_TRUE(program.ok()) << program.error().to_string();
    if (!program.ok()) continue;
    const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
    EXPECT_TRUE(found.ok()) << found.error().to_string();
    if (found.ok()) expect_equal(*expected, *found);
  }
  return *expected;
}

// The obvious loop over elements.
void expect_permuted(const Tensor& from, const Tensor& to, const std::vector<std::int64_t>& axes) {
  const auto element = static_cast<std::size_t>(format_bytes(from.format));
  std::vector<std::int64_t> index(from.dims.size(), 0);
  for (std::int64_t at = 0; at < element_count(to.dims); ++at) {
    std::int64_t source = 0;
    for (std::size_t axis = 0; axis < from.dims.size(); ++axis) {
      const auto place = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis));
      source = source * from.dims[axis] + index[static_cast<std::size_t>(place - axes.begin())];
    }
    ASSERT_EQ(std::memcmp(to.bytes.data() + static_cast<std::size_t>(at) * element,
                          from.bytes.data() + static_cast<std::size_t>(source) * element, element),
              0)
        << "element " << at;
    for (std::size_t axis = from.dims.size(); axis-- > 0;) {
      if (++index[axis] < to.dims[axis]) break;
      index[axis] = 0;
    }
  }
}

// x -> as it is -> permuted -> as it is: the bits of x, at other places.
TEST(Transposition, EveryPermutationUpToRankSixKeepsEveryBitOfEveryFormat) {
  constexpr std::uint64_t kSeed = 41;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  Random random(kSeed);
  constexpr Format kFormats[] = {Format::kF16, Format::kBf16, Format::kF32, Format::kI8,
                                 Format::kU8,  Format::kI16,  Format::kI32};
  for (int i = 0; i < 70; ++i) {
    const Format format = kFormats[i % 7];
    GraphBuilder builder(static_cast<std::uint64_t>(i));
    const Shape dims = random.dims(random.pick(2, 6), 6000);
    const std::vector<std::int64_t> axes = random.permutation(dims.size());
    const TensorId source = builder.input(dims, format);
    const TensorId same = builder.unary(source, UnaryFunction::kIdentity, format);
    const TensorId x = builder.transpose(same, axes);
    builder.output(builder.unary(x, UnaryFunction::kIdentity, format));
    builder.output(builder.transpose(source, axes));  // straight from DRAM to DRAM
    builder.output(builder.concat({x, x}, 0));        // each part in its place
    builder.output(same);
    const auto graph = builder.take();
    SCOPED_TRACE(::testing::Message() << "case " << i << ", " << format_name(format));
    Tensor input = Tensor::zeros(format, dims);
    random.fill(input.bytes);  // every pattern: NaN payloads, infinities, -0, subnormals
    const std::vector<Tensor> outputs = check(graph, {input});
    // Arithmetic may change a float's bits (infinities saturate), movement may not.
    expect_permuted(outputs[3], outputs[0], axes);
    expect_permuted(input, outputs[1], axes);
    if (format_is_integer(format)) {
      EXPECT_TRUE(outputs[0] == outputs[1]);
    }
  }
}

// Products, reductions and element-wise work whose layouts do not fit each other.
TEST(Transposition, LayersOfDifferentLayoutsGiveTheReferenceBits) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    GraphBuilder builder(seed);
    const std::int64_t heads = random.pick(1, 5);
    const std::int64_t depth = random.pick(1, 70);
    const std::int64_t tokens = random.pick(1, 150);
    const std::int64_t width = heads * depth;
    TensorId x = builder.input({1, tokens, width}, Format::kF16);
    const auto project = [&](TensorId from) {
      return builder.matmul(from, builder.constant({width, width}));
    };
    const auto split = [&](TensorId from, const std::vector<std::int64_t>& axes) {
      return builder.transpose(builder.reshape(from, {tokens, heads, depth}), axes);
    };
    // Layer normalisation spelled out, then attention.
    const TensorId mean = builder.reduce(x, {2}, ReduceFunction::kMean);
    const TensorId centred = builder.binary(x, mean, BinaryFunction::kSubtract);
    const TensorId square = builder.binary(centred, centred, BinaryFunction::kMultiply);
    const TensorId variance = builder.reduce(square, {2}, ReduceFunction::kMean);
    const TensorId normal = builder.binary(centred, variance, BinaryFunction::kAdd);
    const TensorId q = split(project(normal), {1, 0, 2});
    const TensorId k = split(project(normal), {1, 2, 0});
    const TensorId v = split(project(normal), {1, 0, 2});
    const TensorId scores = builder.matmul(q, k);
    const TensorId largest = builder.reduce(scores, {2}, ReduceFunction::kMaximum);
    const TensorId shifted = builder.binary(scores, largest, BinaryFunction::kSubtract);
    const TensorId power = builder.unary(shifted, UnaryFunction::kExp);
    const TensorId sum = builder.reduce(power, {2}, ReduceFunction::kSum);
    const TensorId share = builder.binary(power, sum, BinaryFunction::kDivide);
    const TensorId mixed = builder.transpose(builder.matmul(share, v), {1, 0, 2});
    const TensorId joined = builder.reshape(mixed, {1, tokens, width});
    builder.output(builder.binary(project(joined), x, BinaryFunction::kAdd));
    const auto graph = builder.take();
    check(graph, random_inputs(*graph, seed));
  }
}

}  // namespace
}  // namespace tessera::agreement
