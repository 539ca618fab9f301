// The structures of DLPack 0.8 (dmlc/dlpack), by which libraries of arrays hand memory to each
// other: a capsule "dltensor" holds a DLManagedTensor until its receiver renames it.
#pragma once

#include <cstdint>

namespace tessera::python::dlpack {

inline constexpr std::int32_t kCpu = 1;
inline constexpr const char* kCapsule = "dltensor";
inline constexpr const char* kTaken = "used_dltensor";

struct Device {
  std::int32_t type = kCpu, id = 0;
};
enum TypeCode : std::uint8_t { kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kBool = 6 };
struct DataType {
  std::uint8_t code = kFloat, bits = 32;
  std::uint16_t lanes = 1;
};
struct DenseTensor {
  void* data = nullptr;
  Device device;
  std::int32_t rank = 0;
  DataType type;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in elements; null: dense, row-major
  std::uint64_t byte_offset = 0;
};
struct ManagedTensor {
  DenseTensor tensor;
  void* context = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
};

}  // namespace tessera::python::dlpack
