// What masters and nodes as programs have in common.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/daemon_facts.h"
#include "store/store.h"
#include "tools/service/arguments.h"

namespace tessera::tools {

bool is_loopback(const std::string& address);
// An address that others reach, too, is refused without TLS unless it is said twice.
Status check_address(const ServiceArguments& service);
Result<std::unique_ptr<store::Store>> open_store(const ServiceArguments& service);

// Of a daemon of this program that writes these files (empty: none).
cluster::DaemonFacts facts_of(const std::vector<std::string>& files);
// Where nodes have their sockets of shared memory: XDG_RUNTIME_DIR, or the folder of temporary files.
std::string shared_memory_folder();
// Appends lines of JSON to a file, each at once. Empty path: nothing. The function may be called by threads.
Result<std::function<void(const nlohmann::json&)>> line_log(const std::string& path);

}  // namespace tessera::tools
