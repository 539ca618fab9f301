// What masters and nodes as programs have in common: where they listen, which store they use, how long they run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "cluster/messenger.h"
#include "store/store.h"

namespace tessera::tools {

// The certificates of this machine, for masters, nodes and who asks them.
struct TlsArguments {
  std::string authority, certificate, key;
  bool without_tls = false;

  void add_to(CLI::App& app, const std::string& without_tls_help);
  Result<cluster::MessengerOptions> messenger() const;
};

struct ServiceArguments {
  std::string store;
  std::string address = "127.0.0.1", advertised;
  int port = 0;
  TlsArguments tls;
  bool store_tls = false;
  int ttl_ms = 3000;
  double seconds = 0;
  bool json = false;

  void add_to(CLI::App& app, const char* port_option, int port_default);
  // An address that others reach, too, is refused without TLS unless it is said twice.
  Status check_address() const;
  Result<std::unique_ptr<store::Store>> open_store() const;
};

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
