// What `tessera run` was asked for, of a model or of a program.
#pragma once

#include <string>
#include <vector>

#include "tessera/traps.h"
#include "tools/files/roles.h"
#include "tools/run/cores_arguments.h"
#include "tools/verb.h"

namespace tessera::tools {

struct RunArguments {
  ModelArguments model;
  std::vector<std::string> inputs;  // NAME=SOURCE or SOURCE
  std::string preprocess;
  std::string device = "sim";
  std::string output_folder;
  std::string trace, html;
  std::string traps;  // names with commas between, or ""
  std::string stream, stream_out;
  std::string framing = "raw";  // of the stream: raw or messages
  int peers = 1;                // callers of a stream that listens, one after the other; 0: no end
  int read_ahead = 16;          // steps
  CoresArguments cores;
  int threads = 0;
  bool timing_only = false, check_hazards = false, unverified = false, serial = false;
  bool no_host_time = false;
  bool arch_given = false;
  // Networks that share the core with `model`, and of each of all networks, in their order, its
  // priority, arrival ("200us") and share of the memories; or none.
  std::vector<std::string> others;
  std::string priorities, arrivals, shares;  // with commas between
};

// The traps that the arguments name; 0 if they name none.
Result<std::uint8_t> traps_of(const RunArguments& arguments);

// What the arguments name.
FileRoles file_roles(const RunArguments& arguments);

}  // namespace tessera::tools
