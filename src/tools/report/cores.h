// report --cores: how each layer was shared out among several cores, what moved for it, and what the
// cores, memories, ring links and network ports of the card did.
#pragma once

#include <string>

#include "tools/run/cores_arguments.h"
#include "tools/verb.h"

namespace tessera::tools {

struct CoresReport {
  ModelArguments model;
  CoresArguments cores;
  std::string html, trace;  // files to write, or empty
};

// `roles`: what is read and written (files/roles.h).
Status cores_report(const CoresReport& arguments, FileRoles roles);

}  // namespace tessera::tools
