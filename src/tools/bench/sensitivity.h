// tessera bench --suite sensitivity: what a change of the processor brings, and why.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera::tools {

struct SensitivitySuite {
  std::string arch;
  std::string networks;  // names with commas between; "" = a few of different kinds
  bool json = false;
};
Status run_sensitivity_suite(const SensitivitySuite& suite);

}  // namespace tessera::tools
