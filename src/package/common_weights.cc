#include "package/common_weights.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "package/common_bytes.h"
#include "package/package_check.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

using isa::RegionPart;

void find_weights(const isa::Unlinked& unlinked, std::span<const std::byte> weights,
                  isa::Program& program) {
  if (!unlinked.weights.part()) return;  // none
  const std::uint64_t begin = unlinked.weights.part()->offset;
  std::vector<RegionPart> parts;
  const auto found = CommonBytesFinder(weights).find(program.weights.bytes(), kWeightPartsMax);
  for (const CommonBytes& common : found) {
    const auto bytes = weights.subspan(common.from, common.bytes);
    parts.push_back({common.at, {begin + common.from, common.bytes, sha256(bytes)}});
  }
  program.weights.also_in(std::move(parts));
}

void find_constant(const isa::HostStep& step, isa::StepConstant& constant) {
  const auto there = std::ranges::find(step.constants, constant.name, &isa::StepConstant::name);
  if (there == step.constants.end() || !there->part) return;
  const isa::TensorPart& part = *there->part;
  if (part.format == constant.value->format && part.dims == constant.value->dims &&
      part.place.digest == sha256(constant.value->bytes)) {
    constant.part = part;
  }
}

}  // namespace

void find_in_package(const isa::Unlinked& unlinked, std::span<const std::byte> weights,
                     isa::Program& program) {
  find_weights(unlinked, weights, program);
  std::map<std::int32_t, const isa::HostStep*> steps;  // by node
  for (const isa::HostStep& step : unlinked.host_steps) steps.emplace(step.node, &step);
  for (isa::Segment& segment : program.segments) {
    for (isa::HostStep& step : segment.host_steps) {
      const auto there = steps.find(step.node);
      if (there == steps.end()) continue;
      for (isa::StepConstant& constant : step.constants) find_constant(*there->second, constant);
    }
  }
}

}  // namespace tessera::package
