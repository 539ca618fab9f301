// --format auto: formats by layer, chosen on the inputs of the command line.
#pragma once

#include <string>

#include "base/result.h"
#include "tessera/network.h"
#include "tools/files/roles.h"
#include "tools/files/study_cases.h"

namespace tessera::tools {

// Whether --format is "auto" or "auto:BOUND".
bool is_automatic(const std::string& format);

// Of the ONNX model at `path`; says on stderr what was chosen and what it is for. Files that are read are told `roles`. The
// error says what of the text, the inputs or the bound is wrong. With `in_parts`, of a model that data
// takes apart formats of the first part; else it is an error.
Result<LayerFormats> automatic_formats(const std::string& path, const std::string& format,
                                       const LoadOptions& load, const StudyCases& cases,
                                       bool in_parts, FileRoles& roles);

}  // namespace tessera::tools
