// Indices that follow a rule, and those that do not.
#include "concord/index_form.h"

#include <gtest/gtest.h>

#include <functional>

#include "concord/interpret.h"
#include "concord/steps.h"

namespace tessera::concord {
namespace {

using Outside = IndexForm::Outside;

Tensor indices(const Shape& dims, const std::function<std::int64_t(const Shape&)>& rule) {
  Tensor tensor = Tensor::zeros(Format::kI64, dims);
  Shape at(dims.size(), 0);
  for (std::int64_t& index : tensor.as<std::int64_t>()) {
    index = rule(at);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      if (++at[axis] < dims[axis]) break;
      at[axis] = 0;
    }
  }
  return tensor;
}

// What the rule says of every element.
void expect_follows(const IndexForm& form, const Tensor& tensor) {
  const Tensor again = indices(tensor.dims, [&](const Shape& at) {
    std::int64_t sum = 0, place = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      sum += form.along[axis][static_cast<std::size_t>(at[axis])];
      if (form.outside_is != Outside::kByMask) continue;
      place = place * form.mask.dims[axis] + (form.mask.dims[axis] == 1 ? 0 : at[axis]);
    }
    if (form.outside_is == Outside::kNowhere) return sum;
    const bool is_outside = form.outside_is == Outside::kBySum
                                ? sum < 0 || sum >= form.outside
                                : form.mask.bytes[static_cast<std::size_t>(place)] != std::byte{0};
    return is_outside ? form.outside : sum;
  });
  EXPECT_EQ(again, tensor);
}

// What a gather by them computes is the same with and without the rule.
void expect_gathers(const Tensor& tensor, std::int64_t elements) {
  Software software;
  Steps steps(software);
  const ValueId data = steps.input("x", Format::kF64, {elements});
  const ValueId found = steps.gather(data, steps.constant(tensor), 0);
  software.outputs.push_back({found, "y"});
  Tensor values = Tensor::zeros(Format::kF64, {elements});
  for (std::int64_t i = 0; i < elements; ++i)
    values.as<double>()[static_cast<std::size_t>(i)] = 3.0 * static_cast<double>(i);
  const auto result = interpret(software, std::vector<Tensor>{values});
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (std::size_t i = 0; i < tensor.as<std::int64_t>().size(); ++i) {
    ASSERT_EQ((*result)[0].as<double>()[i],
              3.0 * static_cast<double>(tensor.as<std::int64_t>()[i]));
  }
}

TEST(IndexForm, TapsOfAConvolution) {
  const Tensor taps = indices({16, 500}, [](const Shape& at) { return at[0] + 2 * at[1]; });
  const auto form = index_form(taps);
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->outside_is, Outside::kNowhere);
  expect_follows(*form, taps);
  expect_gathers(taps, 1'100);
}

TEST(IndexForm, TapsThatReachIntoThePadding) {
  const Tensor taps = indices({1, 64, 500, 1}, [](const Shape& at) {
    const std::int64_t place = at[1] + 2 * at[2] - 31;
    return place < 0 || place >= 1'000 ? 1'000 : place;
  });
  const auto form = index_form(taps);
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->outside_is, Outside::kBySum);
  expect_follows(*form, taps);
  expect_gathers(taps, 1'001);
}

TEST(IndexForm, RowsThatAreShiftedByAnyNumber) {
  const std::int64_t shifts[] = {-36, 0, 36, 57, 72, 84, 93, 101};
  const Tensor rows = indices({1, 8, 20, 264}, [&](const Shape& at) {
    const std::int64_t column = at[3] + shifts[at[1]];
    return column < 0 || column >= 264 ? 20 * 264 : 264 * at[2] + column;
  });
  const auto form = index_form(rows);
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->outside_is, Outside::kByMask);
  EXPECT_EQ(form->mask.dims, (Shape{1, 8, 1, 264}));
  expect_follows(*form, rows);
  expect_gathers(rows, 20 * 264 + 1);
}

TEST(IndexForm, NoRuleNoForm) {
  const Tensor squares = indices({16, 500}, [](const Shape& at) { return at[0] * at[1] % 977; });
  EXPECT_FALSE(index_form(squares).has_value());
  const Tensor few = indices({4, 4}, [](const Shape& at) { return at[0] + at[1]; });
  EXPECT_FALSE(index_form(few).has_value());
  const Tensor long_line = indices({5'000}, [](const Shape& at) { return at[0]; });
  EXPECT_FALSE(index_form(long_line).has_value());  // as large as the indices
}

}  // namespace
}  // namespace tessera::concord
