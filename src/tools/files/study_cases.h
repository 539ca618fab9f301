// The inputs on which accuracy is looked at: one case of --input texts, or the cases of a folder.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tessera/network.h"
#include "tools/files/roles.h"

namespace tessera::tools {

struct StudyCases {
  std::vector<std::string> inputs;  // NAME=SOURCE, one case; those that are not named are random
  std::string
      folder;  // a file each for the only input, or a folder each with NAME.npy (.pb, .png, .jpg)
  std::string preprocess;  // of pictures
};

// By case, in the order of the model's `inputs`. Files that are read are told `roles`.
Result<std::vector<std::vector<Tensor>>> read_cases(const StudyCases& arguments,
                                                    const std::vector<TensorDescription>& inputs,
                                                    FileRoles& roles);

}  // namespace tessera::tools
