#include "tools/run/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/shared_session.h"
#include "tools/files/tensor_file.h"
#include "tools/run/output.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// One of the networks, as the arguments say.
struct Tenant {
  RunArguments arguments;  // with its own model, inputs and output folder
  std::int32_t priority = 0;
  double arrival_us = 0;
  double share = 0;
};

Error wrong(const std::string& text) { return {ErrorCode::kInvalidArgument, text}; }

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "200us", "0.2ms" or "0".
Result<double> microseconds(const std::string& text) {
  const Error error =
      wrong(fmt::format("--arrival '{}': expected 0, or a time of 0 and later in us or ms", text));
  std::string digits = text;
  double unit = 1;
  if (digits.ends_with("us") || digits.ends_with("ms")) {
    if (digits.ends_with("ms")) unit = 1000;
    digits.resize(digits.size() - 2);
  } else if (digits != "0") {
    return error;
  }
  const std::optional<double> value = number_of(digits);
  if (!value || *value < 0) return error;
  return *value * unit;
}

Result<double> share_of(const std::string& text) {
  const std::optional<double> share = number_of(text);
  if (share && *share > 0 && *share < 1) return *share;
  return wrong(fmt::format("--share '{}': allowed above 0 and below 1", text));
}

Result<std::int32_t> priority_of(const std::string& text) {
  constexpr double kMost = 1'000'000;
  const std::optional<double> priority = number_of(text);
  if (priority && *priority == std::round(*priority) && std::abs(*priority) <= kMost) {
    return static_cast<std::int32_t>(*priority);
  }
  return wrong(fmt::format("--priority '{}': allowed are whole numbers from -{:.0f} to {:.0f}",
                           text, kMost, kMost));
}

// The parts of "0,5": one for each network, or none where the option is not given.
Result<std::vector<std::string>> parts_of(const char* option, const std::string& text,
                                          std::size_t networks) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t last = std::min(text.find(',', first), text.size());
    parts.push_back(text.substr(first, last - first));
    first = last + 1;
  }
  if (parts.size() == networks) return parts;
  return wrong(fmt::format("{} '{}': {} given for {} networks; give one for each", option, text,
                           parts.size(), networks));
}

// Options that mean nothing to several networks are refused.
Status check_for_sharing(const RunArguments& arguments) {
  if (arguments.device != "sim") {
    return wrong(fmt::format("several networks share a core of the device sim; the device is {}",
                             arguments.device));
  }
  const char* const option = arguments.serial                ? "--serial"
                             : !arguments.html.empty()       ? "--html"
                             : !arguments.stream.empty()     ? "--stream"
                             : !arguments.stream_out.empty() ? "--out"
                                                             : nullptr;
  if (option == nullptr) return {};
  return wrong(fmt::format("{} is for one network; several are given", option));
}

// "1:x=FILE" is for network 1, and so is "b:x=FILE" where its file is b.onnx; "random:7" is for all.
Status give_inputs(const RunArguments& arguments, std::vector<Tenant>& tenants) {
  for (const std::string& text : arguments.inputs) {
    const std::string prefix = text.substr(0, text.find(':'));
    bool taken = false;
    for (std::size_t n = 0; n < tenants.size(); ++n) {
      const std::string stem =
          std::filesystem::path(tenants[n].arguments.model.model).stem().string();
      if (prefix == text || (prefix != std::to_string(n) && prefix != stem)) continue;
      tenants[n].arguments.inputs.push_back(text.substr(prefix.size() + 1));
      taken = true;
    }
    if (taken) continue;
    if (text.starts_with("random")) {
      for (Tenant& tenant : tenants) tenant.arguments.inputs.push_back(text);
      continue;
    }
    return wrong(
        fmt::format("--input '{}': several networks are given; write NETWORK:NAME=SOURCE, "
                    "NETWORK being 0 to {} or the file's name without its ending",
                    text, tenants.size() - 1));
  }
  return {};
}

Result<std::vector<Tenant>> tenants_of(const RunArguments& arguments) {
  const std::size_t networks = arguments.others.size() + 1;
  TESSERA_RETURN_IF_ERROR(check_for_sharing(arguments));
  TESSERA_TRY(const auto priorities, parts_of("--priority", arguments.priorities, networks));
  TESSERA_TRY(const auto arrivals, parts_of("--arrival", arguments.arrivals, networks));
  TESSERA_TRY(const auto shares, parts_of("--share", arguments.shares, networks));
  std::vector<Tenant> tenants(networks);
  for (std::size_t n = 0; n < networks; ++n) {
    Tenant& tenant = tenants[n];
    tenant.arguments = arguments;
    tenant.arguments.inputs.clear();
    if (n > 0) tenant.arguments.model.model = arguments.others[n - 1];
    tenant.share = 1.0 / static_cast<double>(networks);
    if (!shares.empty()) {
      TESSERA_TRY(tenant.share, share_of(shares[n]));
    }
    tenant.arguments.model.region_share = tenant.share;
    if (!arguments.output_folder.empty()) {
      tenant.arguments.output_folder = fmt::format("{}/{}", arguments.output_folder, n);
    }
    if (!priorities.empty()) {
      TESSERA_TRY(tenant.priority, priority_of(priorities[n]));
    }
    if (!arrivals.empty()) {
      TESSERA_TRY(tenant.arrival_us, microseconds(arrivals[n]));
    }
  }
  TESSERA_RETURN_IF_ERROR(give_inputs(arguments, tenants));
  for (Tenant& tenant : tenants) tenant.arguments.model.fed = tenant.arguments.inputs;
  return tenants;
}

nlohmann::json tenant_json(const Tenant& tenant, const Network& network,
                           const SharedNetworkResult& result,
                           const std::vector<std::string>& paths) {
  nlohmann::json document = run_json(tenant.arguments, network.outputs(), result.result, paths);
  for (const char* const key :
       {"engines", "idle_engine_cycles", "status_flags", "clock_hertz", "device", "arch"}) {
    document.erase(key);
  }
  document["priority"] = tenant.priority;
  document["arrival"] = result.arrival;
  document["end"] = result.end;
  document["status"] = result.status.ok() ? "ok" : result.status.error().message;
  return document;
}

// All timelines as one; layers are named with their network.
RunResult joined(const SharedRunResult& run) {
  RunResult all;
  all.cycles = run.cycles;
  all.clock_hertz = run.clock_hertz;
  all.engines = run.engines;
  all.status_flags = run.status_flags;
  for (std::size_t n = 0; n < run.networks.size(); ++n) {
    for (TimelineEvent event : run.networks[n].result.timeline) {
      event.layer = fmt::format("{}: {}", n, event.layer);
      all.timeline.push_back(std::move(event));
    }
  }
  return all;
}

Status stopped(const std::vector<Tenant>& tenants, const SharedRunResult& run) {
  std::string text;
  for (std::size_t n = 0; n < tenants.size(); ++n) {
    if (run.networks[n].status.ok()) continue;
    text += fmt::format("{}network {} '{}' was stopped: {}", text.empty() ? "" : "; ", n,
                        tenants[n].arguments.model.model, run.networks[n].status.error().message);
  }
  if (text.empty()) return {};
  return Error{ErrorCode::kInvalidModel, text};
}

Status show_results(const RunArguments& arguments, const std::vector<Tenant>& tenants,
                    const std::vector<Network>& networks, const SharedRunResult& run) {
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t n = 0; n < tenants.size(); ++n) {
    const Tenant& tenant = tenants[n];
    const SharedNetworkResult& result = run.networks[n];
    TESSERA_TRY(const std::vector<std::string> paths,
                write_outputs(tenant.arguments.output_folder, networks[n].outputs(), result.result,
                              file_roles(tenant.arguments)));
    if (arguments.model.json) {
      list.push_back(tenant_json(tenant, networks[n], result, paths));
      continue;
    }
    const std::string host =
        result.result.host_cycles == 0
            ? ""
            : fmt::format(", {} of them host steps", with_separators(result.result.host_cycles));
    show("network {} {}: priority {}, cycles {} to {}{}{}\n", n, tenant.arguments.model.model,
         tenant.priority, with_separators(result.arrival), with_separators(result.end), host,
         result.status.ok() ? "" : ", stopped: " + result.status.error().message);
    print_run(networks[n].outputs(), result.result, paths, "");
  }
  const RunResult all = joined(run);
  if (!arguments.trace.empty()) TESSERA_RETURN_IF_ERROR(write_perfetto(arguments.trace, all));
  if (!arguments.model.json) {
    print_run({}, all,
              arguments.trace.empty() ? std::vector<std::string>{}
                                      : std::vector<std::string>{arguments.trace},
              arguments.no_host_time ? host_time_text(arguments, all)
                                     : "; not counted: transfers of inputs and outputs");
    return {};
  }
  nlohmann::json document = run_json(arguments, {}, all, {});
  document.erase("model");
  document.erase("outputs");
  document.erase("host_cycles");  // of each network
  document.erase("transfer_cycles");
  document["networks"] = std::move(list);
  show_lines(json_text(document) + "\n");
  return {};
}

}  // namespace

Status check_alone(const RunArguments& arguments) {
  const char* const option = !arguments.priorities.empty() ? "--priority"
                             : !arguments.arrivals.empty() ? "--arrival"
                             : !arguments.shares.empty()   ? "--share"
                                                           : nullptr;
  if (option == nullptr) return {};
  return wrong(fmt::format("{} is for several networks on one core; one is given", option));
}

Status run_shared(const RunArguments& arguments) {
  TESSERA_TRY(const std::vector<Tenant> tenants, tenants_of(arguments));
  TESSERA_TRY(const ImagePreprocessing preprocessing, parse_preprocessing(arguments.preprocess));
  std::vector<SharedNetwork> shared;
  std::vector<Network> networks;
  std::vector<std::vector<Tensor>> inputs;
  for (const Tenant& tenant : tenants) {
    FileRoles roles = file_roles(tenant.arguments);
    TESSERA_TRY(Network network, tenant.arguments.model.load_with_programs(roles));
    TESSERA_TRY(inputs.emplace_back(),
                read_inputs(tenant.arguments.inputs, network.inputs(), preprocessing));
    networks.push_back(network);
    shared.push_back({.network = std::move(network),
                      .priority = tenant.priority,
                      .arrival_us = tenant.arrival_us,
                      .share = tenant.share});
  }
  TESSERA_TRY(const std::uint8_t traps, traps_of(arguments));
  TESSERA_TRY(SharedSession session,
              SharedSession::open(shared, {.timing_only = arguments.timing_only,
                                           .check_hazards = arguments.check_hazards,
                                           .trace = !arguments.trace.empty(),
                                           .host_time = !arguments.no_host_time,
                                           .traps = traps}));
  TESSERA_TRY(const SharedRunResult run, session.run(inputs));
  TESSERA_RETURN_IF_ERROR(show_results(arguments, tenants, networks, run));
  return stopped(tenants, run);
}

}  // namespace tessera::tools
