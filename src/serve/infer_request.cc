#include "serve/infer_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "serve/datatype.h"
#include "tessera/runtime.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kElementsMax = std::int64_t{1} << 40;  // of a tensor of open dimensions

std::string names_of(const std::vector<TensorDescription>& all) {
  std::string names;
  for (const TensorDescription& one : all) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", one.name);
  }
  return names;
}

// Why a tensor of the shape is none that the model takes; empty where it is one.
std::optional<std::string> why_not(const Shape& shape, const Shape& allowed) {
  if (shape.size() != allowed.size()) return "";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (allowed[i] >= 0 && shape[i] != allowed[i]) return "";
  }
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (allowed[i] < 0 && shape[i] < 1) {
      return fmt::format(", where each -1 stands for 1 or more, and dimension {} is {}", i,
                         shape[i]);
    }
    if (shape[i] > 0 && elements > kElementsMax / shape[i]) {
      return fmt::format(", and {} elements at most", kElementsMax);
    }
    elements *= shape[i];
  }
  return std::nullopt;
}

std::string in(const std::string& what, const Error& error) {
  return fmt::format("{}: {}", what, error.message);
}

}  // namespace

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

RequestBuilder::RequestBuilder(const ModelForm& form, const RegionsOfClient& regions)
    : form_(form), regions_(regions), is_there_(form.inputs.size(), false) {
  request_.inputs.resize(form.inputs.size());
}

Result<std::size_t> RequestBuilder::begin_input(const std::string& name, std::string_view datatype,
                                                Shape shape) {
  const auto found = std::ranges::find(form_.inputs, name, &TensorDescription::name);
  if (found == form_.inputs.end()) {
    return invalid(
        fmt::format("the model has no input '{}'; it takes {}", name, names_of(form_.inputs)));
  }
  const auto index = static_cast<std::size_t>(found - form_.inputs.begin());
  if (is_there_[index]) return invalid(fmt::format("input '{}' is there twice", name));
  is_there_[index] = true;
  if (datatype != datatype_of(found->format)) {
    return invalid(fmt::format("input '{}' is {}; the model takes {}", name, datatype,
                               datatype_of(found->format)));
  }
  if (const auto reason = why_not(shape, found->dims)) {
    return invalid(fmt::format("input '{}' has the shape {}; the model takes {}{}", name,
                               shape_text(shape), shape_text(found->dims), *reason));
  }
  request_.inputs[index].format = found->format;
  request_.inputs[index].dims = std::move(shape);
  return index;
}

std::size_t RequestBuilder::bytes_of(std::size_t input) const {
  const Tensor& tensor = request_.inputs[input];
  return static_cast<std::size_t>(element_count(tensor.dims)) *
         static_cast<std::size_t>(format_bytes(tensor.format));
}

Status RequestBuilder::set_bytes(std::size_t input, std::string_view bytes) {
  if (bytes.size() != bytes_of(input)) {
    return invalid(fmt::format("input '{}' has {} bytes of binary data; its shape has {}",
                               form_.inputs[input].name, bytes.size(), bytes_of(input)));
  }
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  request_.inputs[input].bytes.assign(begin, begin + bytes.size());
  return {};
}

Status RequestBuilder::set_region(std::size_t input, const std::string& region,
                                  std::uint64_t offset, std::uint64_t bytes) {
  const std::string what = fmt::format("input '{}'", form_.inputs[input].name);
  if (bytes != bytes_of(input)) {
    return invalid(fmt::format("{} has {} bytes of shared memory; its shape has {}", what, bytes,
                               bytes_of(input)));
  }
  // A region may be longer than its memory: what was never written to has none.
  if (bytes > regions_.bytes_max - region_bytes_) {
    return invalid(
        fmt::format("{} has {} bytes of shared memory, behind {} of other inputs; a request may "
                    "have {} there (--request-bytes)",
                    what, bytes, region_bytes_, regions_.bytes_max));
  }
  TESSERA_TRY(const RegionPart part, part_of(region, offset, bytes));
  region_bytes_ += bytes;
  Tensor& tensor = request_.inputs[input];
  tensor.bytes.resize(bytes);
  const Status read = part.region->read(offset, tensor.bytes);
  if (!read.ok())
    return invalid(fmt::format("{}: region '{}': {}", what, region, read.error().message));
  return {};
}

Result<Tensor*> RequestBuilder::make_room(std::size_t input, std::size_t elements_max) {
  Tensor& tensor = request_.inputs[input];
  const auto elements = static_cast<std::size_t>(element_count(tensor.dims));
  if (elements > elements_max) {
    return invalid(fmt::format("input '{}' has fewer than the {} elements that its shape has",
                               form_.inputs[input].name, elements));
  }
  tensor.bytes.resize(bytes_of(input));
  return &tensor;
}

Result<RegionPart> RequestBuilder::part_of(const std::string& region, std::uint64_t offset,
                                           std::uint64_t bytes) {
  if (regions_.regions == nullptr) return invalid("there is no shared memory here");
  TESSERA_TRY(auto found, regions_.regions->find(regions_.tenant, region));
  if (offset > found->bytes() || bytes > found->bytes() - offset) {
    return invalid(fmt::format("region '{}': {} bytes from {} on are not within its {} bytes",
                               region, bytes, offset, found->bytes()));
  }
  return RegionPart{region, std::move(found), offset, bytes};
}

Result<std::size_t> RequestBuilder::output_of(const std::string& name) {
  const auto found = std::ranges::find(form_.outputs, name, &TensorDescription::name);
  if (found == form_.outputs.end()) {
    return invalid(
        fmt::format("the model has no output '{}'; it gives {}", name, names_of(form_.outputs)));
  }
  const auto index = static_cast<std::size_t>(found - form_.outputs.begin());
  if (std::ranges::find(request_.outputs, index, &WantedOutput::index) != request_.outputs.end()) {
    return invalid(fmt::format("output '{}' is wanted twice", name));
  }
  return index;
}

Status RequestBuilder::want(const std::string& name, bool binary, bool must_have_text) {
  TESSERA_TRY(const std::size_t index, output_of(name));
  const Format format = form_.outputs[index].format;
  if (must_have_text && !binary && (format == Format::kF16 || format == Format::kBf16)) {
    return invalid(
        fmt::format("output '{}' is {}, which has no form in JSON; set its parameter "
                    "'binary_data'",
                    name, datatype_of(format)));
  }
  request_.outputs.push_back({index, binary, {}});
  return {};
}

Status RequestBuilder::want_in_region(const std::string& name, const std::string& region,
                                      std::uint64_t offset, std::uint64_t bytes) {
  TESSERA_TRY(const std::size_t index, output_of(name));
  auto part = part_of(region, offset, bytes);
  if (!part.ok()) return invalid(in(fmt::format("output '{}'", name), part.error()));
  request_.outputs.push_back({index, true, std::move(*part)});
  return {};
}

Status RequestBuilder::want_all(bool binary, bool must_have_text) {
  for (const TensorDescription& output : form_.outputs) {
    TESSERA_RETURN_IF_ERROR(want(output.name, binary, must_have_text));
  }
  return {};
}

void RequestBuilder::set_priority(std::uint64_t priority) {
  constexpr std::uint64_t kLevels = kPriorityHighest - kPriorityLowest + 1;
  if (priority > 0) {
    request_.priority = kPriorityHighest - static_cast<int>(std::min(priority, kLevels) - 1);
  }
}

void RequestBuilder::set_timeout(std::uint64_t microseconds) {
  constexpr std::uint64_t kTimeoutMax = 86'400'000'000;  // a day
  if (microseconds > 0) {
    request_.timeout = std::chrono::microseconds(std::min(microseconds, kTimeoutMax));
  }
}

Result<InferRequest> RequestBuilder::finish() {
  for (std::size_t i = 0; i < is_there_.size(); ++i) {
    if (!is_there_[i]) return invalid(fmt::format("input '{}' is not there", form_.inputs[i].name));
  }
  return std::move(request_);
}

Status write_region(const WantedOutput& output, const TensorDescription& description,
                    const Tensor& tensor) {
  const RegionPart& part = *output.region;
  const std::string what = fmt::format("output '{}': region '{}'", description.name, part.name);
  if (tensor.bytes.size() > part.bytes) {
    return invalid(fmt::format("{}: it has {} bytes; {} are given to it", what, tensor.bytes.size(),
                               part.bytes));
  }
  const Status written = part.region->write(part.offset, tensor.bytes);
  return written.ok() ? written : Status(invalid(in(what, written.error())));
}

}  // namespace tessera::serve
