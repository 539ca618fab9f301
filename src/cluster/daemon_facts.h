// What a master or node says of itself to whoever checks a cluster (call "health"): nothing that is a secret.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::cluster {

struct DaemonFacts {
  std::string version = {};               // of the program
  std::vector<std::string> folders = {};  // that it writes to
};

// version, protocol ("1.1"), unix_ms by its clock, and of each folder's file system its bytes and how many are free.
nlohmann::json facts_json(const DaemonFacts& facts);

// Whether the text of a message asks for it.
bool asks_for_health(const std::string& text);

}  // namespace tessera::cluster
