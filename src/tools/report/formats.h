// tessera report --formats: a model under one number format after the other.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/files/study_cases.h"
#include "tools/verb.h"

namespace tessera::tools {

struct FormatReportArguments {
  StudyCases cases;
  bool texts = false;
  int threads = 0;
  std::vector<std::string> formats;  // empty: all
  int layers = 12;                   // that --accuracy tries
};

Status format_report(const ModelArguments& model, const FormatReportArguments& arguments,
                     const std::string& html, FileRoles roles);

}  // namespace tessera::tools
