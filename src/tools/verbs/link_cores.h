// tessera link --cores: a package's program for several cores.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "package/package.h"
#include "tools/run/cores_arguments.h"

namespace tessera::tools {

struct LinkCoresArguments {
  std::string package, output;
  std::string arch;  // empty: the package's
  CoresArguments cores;
  double bandwidth = 1;  // part of the memories' that they may count on: above 0, up to 1
  bool name_operands = false, embed_weights = false;
  bool json = false;
};

// Out of the package's templates where it has some for these cores: nothing else of it is read. Else it is
// compiled, which is said.
Status link_for_cores(const LinkCoresArguments& arguments);

// What a package has for several cores: a list.
nlohmann::json prepared_json(const package::Package& package);

}  // namespace tessera::tools
