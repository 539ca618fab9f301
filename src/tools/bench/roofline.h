// tessera bench --suite roofline: the zoo's networks, or a folder's models, against their roofline.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera::tools {

struct RooflineSuite {
  std::string arch;
  std::string networks;  // names with commas between; "" = all of the zoo, or none beside `models`
  std::string models;    // a folder of models (stored_files.h); "" = none
  bool json = false;
};
Status run_roofline_suite(const RooflineSuite& suite);

}  // namespace tessera::tools
