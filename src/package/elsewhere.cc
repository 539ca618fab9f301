#include "package/elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "package/host_step.h"
#include "package/section_file.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

namespace fs = std::filesystem;
using isa::HostStep;
using isa::Program;
using isa::StepConstant;
using isa::TensorPart;

Status read_step(HostStep& step, const ReadPart& read) {
  std::map<std::string, TensorPart> parts;
  for (StepConstant& constant : step.constants) {
    if (constant.value != nullptr) continue;
    const TensorPart& part = *constant.part;
    TESSERA_TRY(std::vector<std::byte> bytes, read(part.place));
    auto tensor = std::make_shared<Tensor>();
    tensor->format = part.format;
    tensor->dims = part.dims;
    tensor->bytes = std::move(bytes);
    constant.value = std::move(tensor);
    parts.emplace(constant.name, part);
  }
  TESSERA_RETURN_IF_ERROR(settle_host_step(step));
  for (StepConstant& constant : step.constants) {
    const auto part = parts.find(constant.name);
    if (part != parts.end()) constant.part = part->second;
  }
  return {};
}

// Those that the program has, with the others between them.
Result<isa::Weights> whole_weights(const isa::Weights& weights, const ReadPart& read) {
  std::vector<std::byte> bytes;
  const std::span<const std::byte> between = weights.between_parts().front();
  std::size_t taken = 0;
  for (const isa::RegionPart& part : weights.parts()) {
    const auto before = between.subspan(taken, part.at - bytes.size());
    taken += before.size();
    bytes.insert(bytes.end(), before.begin(), before.end());
    TESSERA_TRY(const std::vector<std::byte> its, read(part.place));
    bytes.insert(bytes.end(), its.begin(), its.end());
  }
  const auto behind = between.subspan(taken);
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  return isa::Weights(std::move(bytes));
}

// Bytes and digest of what is looked for: of the weights, or of a constant where the program holds those.
std::string wanted_text(const Program& program) {
  if (program.weights.part()) {
    const isa::SectionPart& part = *program.weights.part();
    return fmt::format("weights ({} bytes with the SHA-256 {})", part.bytes,
                       sha256_text(part.digest));
  }
  if (!program.weights.held()) {
    const isa::SectionPart& first = program.weights.parts().front().place;
    return fmt::format("weights ({} bytes in {} parts, the first with the SHA-256 {})",
                       program.weights.bytes_of_parts(), program.weights.parts().size(),
                       sha256_text(first.digest));
  }
  for (const isa::Segment& segment : program.segments) {
    for (const HostStep& step : segment.host_steps) {
      for (const StepConstant& constant : step.constants) {
        if (constant.value != nullptr || !constant.part) continue;
        return fmt::format("constant '{}' ({} bytes with the SHA-256 {})", constant.name,
                           constant.part->place.bytes, sha256_text(constant.part->place.digest));
      }
    }
  }
  return "weights";
}

std::vector<std::string> paths_of(const Program& program, const WeightsPlaces& places) {
  if (!places.file.empty()) return {places.file};
  const fs::path named(program.weights_file);
  if (!places.folder || named.is_absolute()) return {};
  const fs::path folder(*places.folder);
  std::vector<std::string> paths = {(folder / named).lexically_normal().string()};
  const std::string beside = (folder / named.filename()).lexically_normal().string();
  if (beside != paths.front()) paths.push_back(beside);
  return paths;
}

Error not_found(const Program& program, const std::string& name, const std::string& tried) {
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' refers to its {} in '{}', which is not there: {}; put the file there, name "
                  "it (--weights, LoadOptions::weights_file), or link with --embed-weights",
                  name, wanted_text(program), program.weights_file, tried)};
}

}  // namespace

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }

bool is_unread(const HostStep& step) {
  return std::ranges::any_of(
      step.constants, [](const StepConstant& constant) { return constant.value == nullptr; });
}

bool is_unread(const Program& program) {
  return !program.weights.held() ||
         std::ranges::any_of(program.segments, [](const isa::Segment& segment) {
           return std::ranges::any_of(segment.host_steps,
                                      [](const HostStep& step) { return is_unread(step); });
         });
}

bool has_parts(const Program& program) {
  return program.weights.part().has_value() || !program.weights.parts().empty() ||
         std::ranges::any_of(program.segments, [](const isa::Segment& segment) {
           return std::ranges::any_of(segment.host_steps, [](const HostStep& step) {
             return std::ranges::any_of(step.constants, [](const StepConstant& constant) {
               return constant.part.has_value();
             });
           });
         });
}

Status read_elsewhere(Program& program, const std::string& name, const ReadPart& read) {
  if (!program.weights.held() && program.weights.part()) {
    TESSERA_TRY(std::vector<std::byte> bytes, read(*program.weights.part()));
    program.weights.hold(isa::Weights(std::move(bytes)));
  } else if (!program.weights.held()) {
    TESSERA_TRY(isa::Weights whole, whole_weights(program.weights, read));
    program.weights.hold(std::move(whole));
  }
  for (isa::Segment& segment : program.segments) {
    for (HostStep& step : segment.host_steps) {
      if (!is_unread(step)) continue;
      const Status status = read_step(step, read);
      if (!status.ok()) return status.error().with_context("'" + name + "'");
    }
  }
  return {};
}

Result<std::string> find_elsewhere(Program& program, const std::string& name,
                                   const WeightsPlaces& places) {
  if (!is_unread(program)) {
    if (places.file.empty()) return std::string();
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' holds its weights and takes none from '{}'; leave that out",
                             name, places.file)};
  }
  std::string tried;
  for (const std::string& path : paths_of(program, places)) {
    const Status status = [&]() -> Status {
      TESSERA_TRY(const SectionFile file, SectionFile::open(path));
      return read_elsewhere(program, name,
                            [&file](const isa::SectionPart& part) { return file.read(part); });
    }();
    if (status.ok()) return path;
    tried += (tried.empty() ? "" : "; ") + status.error().message;
  }
  if (tried.empty()) {
    tried = fs::path(program.weights_file).is_absolute()
                ? "the path is absolute"
                : "the program did not come from a folder to look in";
  }
  return not_found(program, name, tried);
}

void hold_all(Program& program) {
  program.weights_file.clear();
  program.weights.forget_part();
  for (isa::Segment& segment : program.segments) {
    for (HostStep& step : segment.host_steps) {
      for (StepConstant& constant : step.constants) constant.part.reset();
    }
  }
}

std::string path_from(const std::string& program, const std::string& file) {
  // Links are followed as opening the file from the program's folder will follow them.
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(program, error).parent_path(), error);
  const fs::path target = fs::absolute(file, error);
  const fs::path home = fs::weakly_canonical(target.parent_path(), error);
  const fs::path relative = (home / target.filename()).lexically_relative(folder);
  return relative.empty() ? target.filename().generic_string() : relative.generic_string();
}

}  // namespace tessera::package
