// What masters and nodes as programs have in common.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "store/store.h"
#include "tools/service/arguments.h"

namespace tessera::tools {

bool is_loopback(const std::string& address);
// An address that others reach, too, is refused without TLS unless it is said twice.
Status check_address(const ServiceArguments& service);
Result<std::unique_ptr<store::Store>> open_store(const ServiceArguments& service);

// One event, which goes out at once: a JSON object or a text.
void tell_event(bool json, const nlohmann::json& document, const std::string& text);
// Before the first of the next: SIGINT and SIGTERM end wait_until_end().
void end_on_signals();
// Until the time is over (0: never), or a signal.
void wait_until_end(double seconds);
// Where nodes have their sockets of shared memory: XDG_RUNTIME_DIR, or the folder of temporary files.
std::string shared_memory_folder();
// Appends lines of JSON to a file, each at once. Empty path: nothing. The function may be called by threads.
Result<std::function<void(const nlohmann::json&)>> line_log(const std::string& path);

}  // namespace tessera::tools
