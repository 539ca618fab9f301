#include "report/core_waits.h"

namespace tessera::report {

nlohmann::json waits_json(const RunResult& run) {
  nlohmann::json waits = nlohmann::json::array();
  for (const CoreWait& wait : run.waits) {
    nlohmann::json& one = waits.emplace_back();
    one = {{"kind", wait.kind}, {"who", wait.who}, {"what", wait.what}, {"cycles", wait.cycles}};
    if (wait.core >= 0) one["core"] = wait.core;
    if (wait.other >= 0) one["other"] = wait.other;
    if (wait.kind != "share") continue;
    one["layer"] = wait.layer;
    one["share"] = wait.share;
  }
  return waits;
}

}  // namespace tessera::report
