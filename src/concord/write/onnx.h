// Software as an ONNX model: opset 17, or a newer one that a host step needs; operators of the standard alone.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "concord/software.h"

namespace tessera::concord {

// The bytes of a .onnx file. An error where it would be larger than protobuf's 2 GiB, or holds a
// host node whose meaning changed between its opset and 17.
Result<std::vector<std::byte>> write_onnx(const Software& software);

}  // namespace tessera::concord
