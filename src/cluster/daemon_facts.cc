#include "cluster/daemon_facts.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cluster/message.h"

namespace tessera::cluster {

using nlohmann::json;

json facts_json(const DaemonFacts& facts) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  json folders = json::array();
  for (const std::string& folder : facts.folders) {
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(folder, error);
    if (error) {
      folders.push_back({{"path", folder}, {"error", error.message()}});
    } else {
      folders.push_back(
          {{"path", folder}, {"bytes", space.capacity}, {"free_bytes", space.available}});
    }
  }
  return {{"version", facts.version},
          {"protocol", fmt::format("{}.{}", kProtocolMajor, kProtocolMinor)},
          {"unix_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now).count()},
          {"folders", folders}};
}

bool asks_for_health(const std::string& text) {
  constexpr std::size_t kTextBytesMax = 100;
  if (text.size() > kTextBytesMax || text.find("\"health\"") == std::string::npos) return false;
  const json request = json::parse(text, nullptr, false);
  return request.is_object() && request.contains("call") && request["call"] == "health";
}

}  // namespace tessera::cluster
