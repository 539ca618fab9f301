#include "tools/service/arguments.h"

#include "tools/service/configuration.h"

namespace tessera::tools {

void ServeArguments::add_to(CLI::App& app) {
  app.add_option("--model-repository", repository,
                 "folder of models: MODEL/VERSION/model.onnx (or .tpkg, .tprog)")
      ->required();
  app.add_option("--http-port", port, "0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--grpc-port", grpc_port, "also over gRPC; 0: any that is free")
      ->check(CLI::Range(0, 65535));
  app.add_option("--metrics-port", metrics_port,
                 "/metrics and /healthz alone, besides; 0: any that is free")
      ->check(CLI::Range(0, 65535));
  app.add_option("--http-address", address, "where it listens")->capture_default_str();
  app.add_flag("--without-tls", without_tls, "listen at an address that others reach, too");
  app.add_option("--tls-certificate", certificate,
                 "PEM file: the server's certificate and those between; of all ports");
  app.add_option("--tls-key", key, "PEM file of its key");
  app.add_option("--token-file", token_file,
                 "JSON file of tenants, their tokens, models and limits");
  app.add_option("--trace-file", trace_file, "where the parts of each request go, for Perfetto");
  app.add_option("--device", device, "host (unless given), sim or ref, unless a config.json says");
  app.add_option("--cluster", cluster,
                 "HOST:PORT[,HOST:PORT][?KEY=VALUE&...] of a cluster's masters, whose processors "
                 "run the models; keys as in a device's name: token_file, tls_authority ...");
  app.add_option("--cores", cores, "of sim or the cluster for each run, likewise")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--arch", arch,
                 "profile or architecture file, likewise (tessera128; of a cluster cloud16)");
  app.add_option("--instances", instances, "runs of a model side by side, likewise")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--threads", threads, "of host for each model, likewise; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--request-bytes", request_bytes, "that a request may have")
      ->check(CLI::Range(std::int64_t{1} << 10, std::int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--connections", connections, "at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--shutdown-seconds", shutdown_seconds,
                 "that accepted requests have to be answered at the end")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--seconds", seconds, "end after so long; 0: with a signal")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--json", json, "an object a line for each event");
  add_configuration_options(app);
}

void TlsArguments::add_to(CLI::App& app, const std::string& without_tls_help) {
  app.add_option("--tls-authority", authority,
                 "PEM file: who signs the certificates of all machines of the cluster");
  app.add_option("--tls-certificate", certificate, "PEM file: this machine's certificate");
  app.add_option("--tls-key", key, "PEM file of its key");
  app.add_flag("--without-tls", without_tls, without_tls_help);
}

Result<cluster::MessengerOptions> TlsArguments::messenger() const {
  cluster::MessengerOptions options;
  options.allow_plain_network = without_tls;
  if (authority.empty() && certificate.empty() && key.empty()) return options;
  if (authority.empty() || certificate.empty() || key.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--tls-authority, --tls-certificate and --tls-key belong together; give all"};
  }
  if (without_tls) {
    return Error{ErrorCode::kInvalidArgument,
                 "--without-tls and --tls-authority contradict each other; give one of them"};
  }
  options.tls = {.authority = authority, .certificate = certificate, .key = key};
  return options;
}

void ServiceArguments::add_to(CLI::App& app, const char* port_option, int port_default) {
  port = port_default;
  app.add_option("--store", store,
                 "etcd:HOST:PORT[,HOST:PORT]: what the cluster keeps its records in")
      ->required();
  app.add_option(port_option, port, "0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--address", address, "where it listens")->capture_default_str();
  app.add_option("--advertise", advertised,
                 "HOST or HOST:PORT by which others reach it; else the address");
  tls.add_to(app, "listen at an address that others reach, too, without TLS");
  app.add_flag("--store-tls", store_tls, "etcd is asked with TLS, and with these certificates");
  app.add_option("--ttl-ms", ttl_ms, "milliseconds that its lease lasts without a renewal")
      ->check(CLI::Range(300, 600000))
      ->capture_default_str();
  app.add_option("--seconds", seconds, "end after so long; 0: with a signal")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--end-with-input", end_with_input, "end when standard input does, too");
  app.add_flag("--json", json, "an object a line for each event");
  add_configuration_options(app);
}

void MasterArguments::add_to(CLI::App& app) {
  service.add_to(app, "--port", 7400);
  app.add_option("--tenants-file", tenants_file,
                 "JSON: a token and quotas for each tenant; without it whoever comes may do all");
  app.add_option("--audit-file", audit_file,
                 "a line is added for each acquisition, release and refusal");
}

void NodeArguments::add_to(CLI::App& app) {
  service.add_to(app, "--port", 0);
  app.add_option("--id", id, "its name in the cluster")->required();
  app.add_option("--arch", arch, "of its cards: profile or architecture file")
      ->capture_default_str();
  app.add_option("--cards", cards, "that it has")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option(
         "--on-control-loss", on_control_loss,
         "fence: what runs ends before the lease, and goes elsewhere; keep: it goes on here")
      ->capture_default_str();
  app.add_option("--idle-ms", idle_ms,
                 "milliseconds after which an allocation is given back that nobody uses")
      ->check(CLI::Range(100, 86400000))
      ->capture_default_str();
  app.add_option("--shared-memory", shared_memory,
                 "folder of the socket by which this user's clients on this machine come by shared "
                 "memory; auto: XDG_RUNTIME_DIR or that of temporary files; none: by TCP alone")
      ->capture_default_str();
  app.add_flag("--ucx", ucx, "clients may come by UCX (RDMA), too; it has no TLS");
  app.add_flag("--timed", is_timed,
               "for measurements: each run of a network but its first takes the time that the "
               "processor would take, and gives no values");
  app.add_option(
      "--audit-file", audit_file,
      "a line is added for each request that is refused, since its tenant sends too many");
  app.add_option("--owner-log", owner_log,
                 "a line is added for each allocation that it gets and gives up, and each renewal");
}

void ClusterArguments::add_slurm_options(CLI::App& app) {
  app.add_option(
      "--run", command,
      "slurm: for the shell; TESSERA_DEVICE names a device of --cores cores; ends with it");
  app.add_option("--address", address, "slurm: where master, store and nodes listen")
      ->capture_default_str();
  app.add_option("--ttl-ms", ttl_ms, "slurm: milliseconds that a node's lease lasts")
      ->check(CLI::Range(300, 600000))
      ->capture_default_str();
  app.add_option("--start-seconds", start_seconds, "slurm: that the nodes have to join")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_flag("--head", head, "slurm: be the master and its store; srun starts it so")->group("");
}

void ClusterArguments::add_watch_options(CLI::App& app) {
  app.add_option("--http", http,
                 "watch: where the page is served: PORT (of this machine only) or ADDRESS:PORT; "
                 "port 0 takes any that is free")
      ->capture_default_str();
  app.add_option("--file", file,
                 "watch: show what `cluster pool --json` has written, instead of a cluster");
}

void ClusterArguments::add_to(CLI::App& app) {
  app.add_option("action", action,
                 "try, slurm, nodes, pool, watch, alloc, free, resize, drain or events")
      ->required();
  app.add_option("name", what, "of an allocation (alloc, free, resize) or node (drain)");
  app.add_option("--master", masters, "HOST:PORT[,HOST:PORT...] of masters: whichever leads")
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--tenant", tenant, "who asks, where the cluster has no tokens");
  app.add_option("--token-file", token_file, "the tenant's token");
  tls.add_to(app, "beyond this machine without TLS, if that is meant");
  app.add_option("--patience", patience, "seconds that a master is waited for")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--cores", cores, "alloc, slurm (1 unless given), resize: how many")
      ->check(CLI::Range(1, 1024));
  app.add_option("--arch", arch, "alloc: of the card; try, slurm: of the cards (cloud16)");
  app.add_option("--memory-bytes", memory_bytes,
                 "alloc: of each group in which it has a core; 0: a core's part")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 50));
  app.add_option("--weight", weight, "alloc: of the channels of its groups")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--node", node, "alloc: on this node");
  app.add_flag("--undo", undo, "drain: the node is in use again");
  app.add_option("--after", after, "events: those behind this number")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 53));
  app.add_option("--nodes", nodes, "try: how many; 0 with --etcd: `tessera node` joins")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option(
         "--cards", cards,
         "try, slurm: of each node; alloc: over so many, each as a whole, of one or more nodes")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--port", port, "try, slurm: of the master; 0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_flag("--etcd", etcd, "try: keep the records in an etcd that is started for it");
  app.add_flag("--timed", is_timed, "try: as `tessera node --timed`");
  app.add_option("--seconds", seconds, "try, slurm, watch: end after so long; 0: with a signal")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--json", json, "print JSON");
  add_slurm_options(app);
  add_watch_options(app);
}

}  // namespace tessera::tools
