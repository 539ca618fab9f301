// tessera report --accuracy: where a compiled network loses accuracy, and what would help.
#pragma once

#include <string>

#include "tools/report/formats.h"

namespace tessera::tools {

Status accuracy_report(const ModelArguments& model, const FormatReportArguments& arguments,
                       const std::string& html, FileRoles roles);

}  // namespace tessera::tools
