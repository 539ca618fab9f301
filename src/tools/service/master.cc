// tessera master: decides which node of a cluster has what.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/secret_file.h"
#include "cluster/processes.h"
#include "tessera/file.h"
#include "tools/service/actions.h"
#include "tools/service/arguments.h"
#include "tools/service/process.h"
#include "tools/service/service_manager.h"
#include "tools/service/until_end.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

Status run_master(const MasterArguments& arguments) {
  const ServiceArguments& service = arguments.service;
  TESSERA_RETURN_IF_ERROR(check_address(service));
  cluster::MasterOptions options{.ttl = std::chrono::milliseconds(service.ttl_ms),
                                 .store_timeout = std::chrono::milliseconds(service.ttl_ms / 4)};
  if (!arguments.tenants_file.empty()) {
    TESSERA_TRY(const std::vector<std::byte> bytes, read_file(arguments.tenants_file));
    TESSERA_RETURN_IF_ERROR(check_secret_file(arguments.tenants_file));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    auto tenants = cluster::Tenants::parse(text);
    if (!tenants.ok()) return tenants.error().with_context("'" + arguments.tenants_file + "'");
    options.tenants = std::move(*tenants);
  }
  TESSERA_TRY(options.audit, line_log(arguments.audit_file));
  TESSERA_TRY(const auto store, open_store(service));
  end_on_signals();
  TESSERA_TRY(const cluster::MessengerOptions messenger, service.tls.messenger());
  TESSERA_TRY(auto master,
              cluster::RunningMaster::start(*store, {.address = service.address,
                                                     .port = service.port,
                                                     .advertised = service.advertised,
                                                     .messenger = messenger,
                                                     .master = std::move(options),
                                                     .facts = facts_of({arguments.audit_file})}));
  tell_event(service.json, {{"event", "start"}, {"endpoint", master->endpoint()}},
             fmt::format("master at {}   (ends with Ctrl-C)", master->endpoint()));
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  tell_service_manager("READY=1");
  wait_until_end(service.seconds, service.end_with_input);
  tell_service_manager("STOPPING=1");
  master.reset();
  tell_event(service.json, {{"event", "end"}}, "ended; the next master leads");
  return check_standard_output();
}

}  // namespace

Action master_action(CLI::App& app) {
  auto arguments = std::make_shared<MasterArguments>();
  arguments->add_to(app);
  return [arguments] { return run_master(*arguments); };
}

}  // namespace tessera::tools
