// The datatypes of the Open Inference Protocol and the formats of tensors.
#pragma once

#include <optional>
#include <string_view>

#include "tessera/format.h"

namespace tessera::serve {

// "FP32", "UINT8", "BOOL", ... ("BYTES" has no format: no network takes texts).
std::string_view datatype_of(Format format);
// Of such a name; empty where there is none.
std::optional<Format> format_of(std::string_view datatype);

}  // namespace tessera::serve
