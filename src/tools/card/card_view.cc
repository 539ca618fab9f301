#include "tools/card/card_view.h"

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "dashboard/page.h"
#include "tessera/runtime.h"
#include "tools/service/until_end.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

// What a tenant's thread keeps busy.
struct Served {
  const CardTenant* tenant = nullptr;
  Stream stream;
  std::int64_t done = 0;
  std::optional<Error> error;
};

Result<Runtime> open_devices(const std::vector<CardTenant>& tenants,
                             const CardViewOptions& options) {
  std::vector<DeviceOptions> devices;
  for (const CardTenant& tenant : tenants) {
    if (!tenant.waits.empty()) continue;
    devices.push_back({.kind = DeviceKind::kSim,
                       .name = tenant.processor.name(),
                       .timing_only = options.timing_only,
                       .processor = tenant.processor});
  }
  return Runtime::open({.devices = std::move(devices)});
}

void serve(Served& served, const std::atomic<bool>& over) {
  while (!over && !served.error) {
    auto job = served.stream.submit_when_room(served.tenant->inputs);
    if (!job.ok()) {
      served.error = job.error();
      break;
    }
    const TaskOutcome outcome = job->wait();
    if (outcome.ok()) {
      ++served.done;
    } else {
      served.error = outcome.error().error;
    }
  }
}

Status print_url(const CardViewOptions& options, const std::string& url) {
  if (options.json) {
    show_lines(json_line({{"url", url}}) + "\n");
  } else {
    show("{}   in a browser, or: tessera top {}   (ends with Ctrl-C)\n", url, url);
  }
  return check_standard_output();
}

Status print_end(const CardViewOptions& options, const std::vector<Served>& all) {
  nlohmann::json list = nlohmann::json::array();
  std::string text;
  for (const Served& served : all) {
    const std::string& name = served.tenant->processor.name();
    list.push_back({{"name", name}, {"runs", served.done}});
    text += fmt::format("{}: {} runs\n", visible_text(name), with_separators(served.done));
  }
  show_lines(options.json ? json_line({{"tenants", list}}) + "\n" : text);
  for (const Served& served : all) {
    if (served.error) return *served.error;
  }
  return {};
}

}  // namespace

Status view_tenants(const VirtualCard& card, const std::vector<CardTenant>& tenants,
                    const CardViewOptions& options) {
  if (dashboard::page_files().empty()) {
    return Error{ErrorCode::kUnsupported,
                 "this program was built without npm and has no page; install npm, configure and "
                 "build again"};
  }
  TESSERA_TRY(Runtime runtime, open_devices(tenants, options));
  std::vector<Served> all;
  LiveViewOptions view_options{.listen = options.listen,
                               .title = fmt::format("tenants of {}", card.status().arch),
                               .cards = {card}};
  for (const CardTenant& tenant : tenants) {
    if (!tenant.waits.empty()) continue;
    TESSERA_TRY(const Model model, runtime.load(tenant.network, {tenant.processor.name()}));
    TESSERA_TRY(Pipeline pipeline, runtime.open_pipeline(model, {}));
    view_options.pipelines.push_back(pipeline);
    all.push_back({.tenant = &tenant, .stream = pipeline.open_stream(), .error = {}});
  }
  TESSERA_TRY(const LiveView view, runtime.open_live_view(view_options));
  TESSERA_RETURN_IF_ERROR(print_url(options, view.url()));
  end_on_signals();
  std::atomic<bool> over = false;
  {
    std::vector<std::jthread> threads;
    for (Served& served : all) threads.emplace_back([&] { serve(served, over); });
    wait_until_end(options.seconds);
    over = true;
  }
  return print_end(options, all);
}

}  // namespace tessera::tools
