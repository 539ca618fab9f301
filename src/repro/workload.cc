#include "repro/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "arch/dram_config.h"

namespace tessera::repro {
namespace {

constexpr std::int64_t kExtentMax = 1 << 17;
constexpr std::int64_t kElementsMax = std::int64_t{1} << 30;

struct Form {
  std::string_view prefix;
  WorkloadKind kind;
  std::size_t extents_min, extents_max;
};
constexpr std::array<Form, 5> kForms = {{
    {"gemm_", WorkloadKind::kProduct, 3, 3},
    {"conv_", WorkloadKind::kConvolution, 8, 8},
    {"attention_", WorkloadKind::kAttention, 3, 3},
    {"layernorm_", WorkloadKind::kLayerNorm, 1, 6},
    {"softmax_", WorkloadKind::kSoftmax, 1, 6},
}};
constexpr std::array<std::string_view, 3> kNetworks = {"resnet18", "resnet50", "bert_base"};

enum ConvolutionExtent {
  kImages,
  kHeight,
  kWidth,
  kChannels,
  kOutputs,
  kKernel,
  kStride,
  kPadding
};

std::string trimmed_lower(std::string_view name) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!name.empty() && space(name.front())) name.remove_prefix(1);
  while (!name.empty() && space(name.back())) name.remove_suffix(1);
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Numbers with an 'x' between them; empty if they are none or one is out of range.
std::vector<std::int64_t> extents_of(std::string_view text) {
  std::vector<std::int64_t> extents;
  while (true) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || value < 0 || value > kExtentMax) return {};
    extents.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return extents;
    if (text[0] != 'x') return {};
    text.remove_prefix(1);
  }
}

std::int64_t output_pixels(std::int64_t extent, const std::vector<std::int64_t>& e) {
  return (extent + 2 * e[kPadding] - e[kKernel]) / e[kStride] + 1;
}

// Saturates: extents are at most 2^17, and there may be eight.
std::int64_t product_of(std::initializer_list<std::int64_t> extents) {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    product = extent > kElementsMax / product ? kElementsMax + 1 : product * extent;
    if (product > kElementsMax) return kElementsMax + 1;
  }
  return product;
}

std::int64_t largest_operand(const Workload& workload) {
  const std::vector<std::int64_t>& e = workload.extents;
  switch (workload.kind) {
    case WorkloadKind::kProduct:
      return std::max(
          {product_of({e[0], e[1]}), product_of({e[1], e[2]}), product_of({e[0], e[2]})});
    case WorkloadKind::kConvolution:
      return std::max({product_of({e[kImages], e[kHeight], e[kWidth], e[kChannels]}),
                       product_of({e[kOutputs], e[kChannels], e[kKernel], e[kKernel]}),
                       product_of({e[kImages], output_pixels(e[kHeight], e),
                                   output_pixels(e[kWidth], e), e[kOutputs]})});
    case WorkloadKind::kAttention:
      return std::max(product_of({e[0], e[1], e[2]}), product_of({e[0], e[1], e[1]}));
    case WorkloadKind::kLayerNorm:
    case WorkloadKind::kSoftmax: {
      std::int64_t elements = 1;
      for (const std::int64_t extent : e) elements = product_of({elements, extent});
      return elements;
    }
    case WorkloadKind::kNetwork:
      break;
  }
  return 0;
}

Error refused(std::string_view name, const std::string& why) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("workload '{}': {}, allowed {}", name, why, workload_forms())};
}

Status check_extents(const Workload& workload) {
  const bool convolution = workload.kind == WorkloadKind::kConvolution;
  for (std::size_t i = 0; i < workload.extents.size(); ++i) {
    if (workload.extents[i] == 0 && !(convolution && i == kPadding)) {
      return refused(workload.name, fmt::format("extent {} is 0", i + 1));
    }
  }
  if (convolution) {
    const std::vector<std::int64_t>& e = workload.extents;
    if (std::min(e[kHeight], e[kWidth]) + 2 * e[kPadding] < e[kKernel]) {
      return refused(workload.name, "the kernel is larger than the padded image");
    }
  }
  if (largest_operand(workload) > kElementsMax) {
    return refused(workload.name,
                   fmt::format("an operand has more than {} elements", kElementsMax));
  }
  return {};
}

}  // namespace

const char* workload_forms() {
  return "gemm_MxKxN, conv_BxHxWxCxOxKxSTRIDExPAD, attention_HEADSxLENGTHxDEPTH, "
         "layernorm_ROWSxCOLUMNS, softmax_ROWSxCOLUMNS, resnet18, resnet50, bert_base";
}

Result<Workload> parse_workload(std::string_view name) {
  Workload workload;
  workload.name = trimmed_lower(name);
  if (std::find(kNetworks.begin(), kNetworks.end(), workload.name) != kNetworks.end()) {
    return workload;
  }
  for (const Form& form : kForms) {
    if (!workload.name.starts_with(form.prefix)) continue;
    workload.kind = form.kind;
    workload.extents = extents_of(std::string_view(workload.name).substr(form.prefix.size()));
    if (workload.extents.size() < form.extents_min || workload.extents.size() > form.extents_max) {
      return refused(workload.name,
                     fmt::format("needs {} extents from 1 to {} with an 'x' between them",
                                 form.extents_min == form.extents_max
                                     ? fmt::format("{}", form.extents_min)
                                     : fmt::format("{} to {}", form.extents_min, form.extents_max),
                                 kExtentMax));
    }
    TESSERA_RETURN_IF_ERROR(check_extents(workload));
    return workload;
  }
  return refused(workload.name, "not modelled");
}

std::int64_t workload_macs(const Workload& workload) {
  const std::vector<std::int64_t>& e = workload.extents;
  switch (workload.kind) {
    case WorkloadKind::kProduct:
      return e[0] * e[1] * e[2];
    case WorkloadKind::kConvolution:
      return e[kImages] * output_pixels(e[kHeight], e) * output_pixels(e[kWidth], e) *
             e[kChannels] * e[kOutputs] * e[kKernel] * e[kKernel];
    case WorkloadKind::kAttention:
      return 2 * e[0] * e[1] * e[1] * e[2];
    case WorkloadKind::kLayerNorm:
    case WorkloadKind::kSoftmax:
    case WorkloadKind::kNetwork:
      break;
  }
  return 0;
}

double array_bound_cycles(const ChipConfig& chip, std::int64_t macs) {
  const double cells = static_cast<double>(chip.neural.count) * chip.neural.rows *
                       chip.neural.columns * chip.neural.clock_thousandths / 1000;
  return static_cast<double>(macs) / cells;
}

double memory_bound_cycles(const ChipConfig& chip, std::int64_t bytes) {
  return static_cast<double>(bytes) / dram_sustained_bytes_per_cycle(chip);
}

}  // namespace tessera::repro
