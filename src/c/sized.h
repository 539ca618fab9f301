// Structures of the C interface begin with their size as the caller was compiled: callers that are
// older than this library have fewer members, newer ones have more.
//
// A new member goes behind the last one and never into the padding at the end, which an older
// caller does not set; its zero means what the library did before it was there.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/result.h"
#include "tessera/tessera_c.h"

namespace tessera::c {

// What messages call them.
template <typename Structure>
inline constexpr const char* kStructureName = nullptr;
#define TESSERA_C_STRUCTURE(name) \
  template <>                     \
  inline constexpr const char* kStructureName<name> = #name
TESSERA_C_STRUCTURE(tessera_load_options);
TESSERA_C_STRUCTURE(tessera_shared_network);
TESSERA_C_STRUCTURE(tessera_shared_options);
TESSERA_C_STRUCTURE(tessera_dynamic_options);
TESSERA_C_STRUCTURE(tessera_device_options);
TESSERA_C_STRUCTURE(tessera_processor_options);
TESSERA_C_STRUCTURE(tessera_processor_status);
TESSERA_C_STRUCTURE(tessera_runtime_options);
TESSERA_C_STRUCTURE(tessera_picture_input);
TESSERA_C_STRUCTURE(tessera_stage_options);
TESSERA_C_STRUCTURE(tessera_debug_options);
TESSERA_C_STRUCTURE(tessera_pipeline_options);
TESSERA_C_STRUCTURE(tessera_submit_options);
TESSERA_C_STRUCTURE(tessera_stream_options);
TESSERA_C_STRUCTURE(tessera_operation);
TESSERA_C_STRUCTURE(tessera_layer_task);
TESSERA_C_STRUCTURE(tessera_operation_task);
TESSERA_C_STRUCTURE(tessera_task_input);
TESSERA_C_STRUCTURE(tessera_task_output);
TESSERA_C_STRUCTURE(tessera_network_task);
TESSERA_C_STRUCTURE(tessera_state_binding);
TESSERA_C_STRUCTURE(tessera_live_view_options);
TESSERA_C_STRUCTURE(tessera_times);
TESSERA_C_STRUCTURE(tessera_stage_times);
TESSERA_C_STRUCTURE(tessera_layer);
TESSERA_C_STRUCTURE(tessera_device_statistics);
TESSERA_C_STRUCTURE(tessera_stage_statistics);
TESSERA_C_STRUCTURE(tessera_task_statistics);
#undef TESSERA_C_STRUCTURE

// The size that the caller set, if a version of the structure could have it.
Result<std::size_t> size_of(const void* structure, const char* name);
// What a newer caller set behind the `known` bytes would be ignored, so it is an error.
Status check_unknown(const void* structure, std::size_t known, const char* name);
// A larger count of an array's entries is a negative number, say.
Status check_count(std::size_t count, std::size_t count_max, const std::string& what);

// The caller's structure with the members it does not have at zero; all zeros for NULL.
template <typename Structure>
Result<Structure> sized(const Structure* given) {
  static_assert(std::is_trivially_copyable_v<Structure> && offsetof(Structure, size) == 0);
  constexpr const char* kName = kStructureName<Structure>;
  Structure structure = {};
  if (given == nullptr) return structure;
  TESSERA_TRY(const std::size_t size, size_of(given, kName));
  TESSERA_RETURN_IF_ERROR(check_unknown(given, sizeof structure, kName));
  std::memcpy(&structure, given, size < sizeof structure ? size : sizeof structure);
  return structure;
}

// The entries of an array, which lie as far apart as the caller's structures are long.
template <typename Structure>
Result<std::vector<Structure>> sized_list(const Structure* given, std::size_t count,
                                          std::size_t count_max, const char* what) {
  std::vector<Structure> list;
  if (count == 0) return list;
  if (given == nullptr) {
    return Error{ErrorCode::kInvalidArgument, std::string(what) + " is NULL"};
  }
  TESSERA_RETURN_IF_ERROR(check_count(count, count_max, what));
  TESSERA_TRY(const std::size_t stride, size_of(given, kStructureName<Structure>));
  const auto* const bytes = reinterpret_cast<const std::byte*>(given);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const entry = reinterpret_cast<const Structure*>(bytes + i * stride);
    const std::string name =
        std::string(what) + "[" + std::to_string(i) + "], a " + kStructureName<Structure>;
    TESSERA_TRY(const std::size_t size, size_of(entry, name.c_str()));
    if (size != stride) {
      return Error{ErrorCode::kInvalidArgument,
                   name + ": size is " + std::to_string(size) + ", that of the first entry " +
                       std::to_string(stride) + "; all entries of an array have one size"};
    }
    TESSERA_TRY(Structure structure, sized(entry));
    list.push_back(structure);
  }
  return list;
}

// Hands `full` over in the caller's structure, whose size is set: as much as the caller knows, and
// zeros for what only the caller knows.
template <typename Structure>
Status fill(const Structure& full, Structure* structure) {
  static_assert(std::is_trivially_copyable_v<Structure> && offsetof(Structure, size) == 0);
  TESSERA_TRY(const std::size_t size, size_of(structure, kStructureName<Structure>));
  const std::size_t known = size < sizeof full ? size : sizeof full;
  auto* const bytes = reinterpret_cast<std::byte*>(structure);
  std::memcpy(bytes, &full, known);
  std::memset(bytes + known, 0, size - known);
  std::memcpy(bytes, &size, sizeof size);
  return {};
}

}  // namespace tessera::c
