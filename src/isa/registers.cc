#include "isa/registers.h"

#include <fmt/format.h>

#include "base/check.h"

namespace tessera::isa {

FlatCopyTask::FlatCopyTask(const CopyTask& source) : task(source) {
  TESSERA_CHECK(source.extents.size() <= kCopyAxesMax, "{} axes", source.extents.size());
  TESSERA_CHECK(source.source_strides.size() == source.extents.size() || source.fill,
                "{} source strides", source.source_strides.size());
  TESSERA_CHECK(source.destination_strides.size() == source.extents.size(),
                "{} destination strides", source.destination_strides.size());
  axes = static_cast<std::uint32_t>(source.extents.size());
  for (std::size_t i = 0; i < axes; ++i) {
    extents[i] = source.extents[i];
    source_strides[i] = source.source_strides.empty() ? 0 : source.source_strides[i];
    destination_strides[i] = source.destination_strides[i];
  }
}

CopyTask FlatCopyTask::to_task() const {
  CopyTask result = task;
  result.extents.assign(extents, extents + axes);
  result.source_strides.assign(source_strides, source_strides + axes);
  result.destination_strides.assign(destination_strides, destination_strides + axes);
  return result;
}

void RegisterReader::fail(const char* name, std::uint32_t found, std::uint32_t allowed_max) {
  if (error_.empty()) {
    error_ = fmt::format("register '{}': found {}, allowed 0..{}", name, found, allowed_max);
  }
}

}  // namespace tessera::isa
