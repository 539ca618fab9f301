// tessera report --formats: a model under one number format after the other.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/verb.h"

namespace tessera::tools {

struct FormatReportArguments {
  std::vector<std::string> inputs;  // NAME=SOURCE, one case
  std::string cases;                // folder
  std::string preprocess;
  bool texts = false;
  int threads = 0;
  std::vector<std::string> formats;  // empty: all
};

Status format_report(const ModelArguments& model, const FormatReportArguments& arguments,
                     const std::string& html, FileRoles roles);

}  // namespace tessera::tools
