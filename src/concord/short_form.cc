// Large constants of few different neighbours, written as what is different and where.
//
//   runs     5 5 5 5 9 9 0 0 0 ...      numbers 5 9 0 and a bit an element: where the next one begins
//                                       element i = numbers[bits that are set up to i]
//   slopes   0 4 8 12 13 14 15 ...      whole numbers whose differences are runs: the sum of those so far
//
// Tables of functions are runs (f16 results repeat); indices of a Gather that no rule has (index_form.h), such
// as those of reflected borders, are slopes. The steps are of constants alone: they are done once.

#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "concord/steps.h"
#include "concord/write/packed_constant.h"

namespace tessera::concord {
namespace {

constexpr std::size_t kBytesMin = 4'096;   // of a constant that may be written otherwise
constexpr std::size_t kNodeBytes = 1'024;  // what the steps of a form take, about
constexpr std::int64_t kBits = 8;          // of a byte
constexpr double kWholeMax = 0x1p52;       // sums up to here are exact

// Elements one behind the other; a run has the bits of its first.
struct Runs {
  Tensor numbers;  // of each run, [runs]
  std::vector<std::uint8_t>
      marks;  // a bit an element, the highest first: a run after the first begins
  std::size_t bytes() const { return packed(numbers).bytes.size() + marks.size() + kNodeBytes; }
};

Runs runs_of(const Tensor& tensor) {
  const auto size = static_cast<std::size_t>(format_bytes(tensor.format));
  const std::size_t count = tensor.bytes.size() / size;
  Runs runs;
  runs.marks.assign((count + kBits - 1) / kBits, 0);
  std::vector<std::byte> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const element = tensor.bytes.data() + i * size;
    if (i > 0 && std::memcmp(element, element - size, size) == 0) continue;
    numbers.insert(numbers.end(), element, element + size);
    if (i > 0) runs.marks[i / kBits] |= static_cast<std::uint8_t>(0x80 >> (i % kBits));
  }
  runs.numbers = Tensor::zeros(tensor.format, {static_cast<std::int64_t>(numbers.size() / size)});
  runs.numbers.bytes = std::move(numbers);
  return runs;
}

// The differences of whole numbers, the first from 0; none where sums of them might be rounded.
std::optional<Tensor> differences(const Tensor& tensor) {
  if (tensor.format != Format::kI64) return std::nullopt;
  Tensor result = tensor;
  const std::span<std::int64_t> numbers = result.as<std::int64_t>();
  std::int64_t before = 0;
  for (std::int64_t& number : numbers) {
    if (std::abs(static_cast<double>(number)) >= kWholeMax) return std::nullopt;
    before = std::exchange(number, number - before);
  }
  return result;
}

// How many bits are set up to each element, f64 [count].
ValueId count_marks(Steps& steps, const std::vector<std::uint8_t>& marks, std::int64_t count) {
  const auto bytes = static_cast<std::int64_t>(marks.size());
  Tensor tensor = Tensor::zeros(Format::kU8, {bytes, 1});
  std::memcpy(tensor.bytes.data(), marks.data(), marks.size());
  const ValueId all = steps.cast(steps.constant(std::move(tensor)), Format::kF64);
  std::vector<double> places;
  for (int i = 1 - static_cast<int>(kBits); i <= 0; ++i) places.push_back(std::ldexp(1.0, i));
  // floor(byte / 2^i) is odd where bit i is set.
  const ValueId above =
      steps.unary(Operator::kFloor, steps.mul(all, steps.f64s(places, {1, kBits})));
  const ValueId even = steps.unary(Operator::kFloor, steps.mul(above, 0.5));
  const ValueId bits = steps.sub(above, steps.add(even, even));
  const ValueId line = steps.slice(steps.reshape(bits, {bytes * kBits}), 0, 0, count);
  return steps.running_sum(line, 0);
}

ValueId write_runs(Steps& steps, const Runs& runs, std::int64_t count) {
  const ValueId places = steps.cast(count_marks(steps, runs.marks, count), Format::kI64);
  return steps.gather(steps.constant(runs.numbers), places, 0);
}

}  // namespace

ValueId Steps::short_constant(Tensor tensor) {
  const std::size_t whole = packed(tensor).bytes.size();
  if (whole < kBytesMin) return constant(std::move(tensor));
  const std::int64_t count = element_count(tensor.dims);
  const Runs runs = runs_of(tensor);
  const std::optional<Tensor> slopes = differences(tensor);
  const std::optional<Runs> slope_runs = slopes ? std::optional(runs_of(*slopes)) : std::nullopt;
  const bool sloping = slope_runs && slope_runs->bytes() < runs.bytes();
  const Runs& shorter = sloping ? *slope_runs : runs;
  if (2 * shorter.bytes() > whole) return constant(std::move(tensor));
  ValueId line = write_runs(*this, shorter, count);
  if (sloping) {
    line = running_sum(cast(line, Format::kF64), 0);
    line = cast(line, Format::kI64);
  }
  return reshape(line, tensor.dims);
}

}  // namespace tessera::concord
