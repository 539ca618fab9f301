#include "tools/cluster/service_arguments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "store/etcd_store.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

std::atomic<bool> interrupted = false;

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

}  // namespace

void ServiceArguments::add_to(CLI::App& app, const char* port_option, int port_default) {
  port = port_default;
  app.add_option("--store", store,
                 "etcd:HOST:PORT[,HOST:PORT]: what the cluster keeps its records in")
      ->required();
  app.add_option(port_option, port, "0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--address", address, "where it listens")->capture_default_str();
  app.add_option("--advertise", advertised, "host by which others reach it; else the address");
  app.add_flag("--without-tls", without_tls, "listen at an address that others reach, too");
  app.add_option("--ttl-ms", ttl_ms, "milliseconds that its lease lasts without a renewal")
      ->check(CLI::Range(300, 600000))
      ->capture_default_str();
  app.add_option("--seconds", seconds, "end after so long; 0: with a signal")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--json", json, "an object a line for each event");
}

Status ServiceArguments::check_address() const {
  if (is_loopback(address) || without_tls) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("--address {} is not of this machine alone, and there is no TLS: anybody "
                  "who reaches it may use the cluster; give --without-tls too if that is "
                  "meant, or listen at 127.0.0.1",
                  address)};
}

Result<std::unique_ptr<store::Store>> ServiceArguments::open_store() const {
  constexpr std::string_view kEtcd = "etcd:";
  if (!store.starts_with(kEtcd) || store.size() == kEtcd.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--store '{}'; allowed is etcd:HOST:PORT[,HOST:PORT]", store)};
  }
  store::EtcdOptions options;
  std::string rest = store.substr(kEtcd.size());
  for (std::size_t begin = 0; begin <= rest.size();) {
    const std::size_t end = std::min(rest.find(',', begin), rest.size());
    options.endpoints.push_back(rest.substr(begin, end - begin));
    begin = end + 1;
  }
  // A member that is gone must not take a renewal's whole time.
  options.attempt_time = std::chrono::milliseconds(std::max(100, ttl_ms / 10));
  return store::connect_etcd(options);
}

void tell_event(bool json, const nlohmann::json& document, const std::string& text) {
  show_lines(json ? json_line(document) + "\n" : text + "\n");
  std::fflush(stdout);
}

void end_on_signals() {
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::signal(SIGTERM, [](int) { interrupted = true; });
}

void wait_until_end(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (!interrupted) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (seconds > 0 && elapsed.count() >= seconds) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<std::function<void(const nlohmann::json&)>> line_log(const std::string& path) {
  if (path.empty()) return std::function<void(const nlohmann::json&)>();
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
  }
  const std::shared_ptr<int> file(new int(descriptor), [](int* one) {
    ::close(*one);
    delete one;
  });
  // One write a line: lines of several threads do not mix.
  return std::function<void(const nlohmann::json&)>([file](const nlohmann::json& document) {
    const std::string line = json_line(document) + "\n";
    if (::write(*file, line.data(), line.size()) < 0) return;  // a disk that is full loses the line
  });
}

}  // namespace tessera::tools
