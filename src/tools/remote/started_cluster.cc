#include "tools/remote/started_cluster.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace tessera::tools {

Result<std::unique_ptr<StartedCluster>> StartedCluster::start(
    const StartedClusterOptions& options) {
  std::vector<std::string> words = {"cluster", "try",        "--nodes", "1",
                                    "--arch",  options.arch, "--port",  "0"};
  if (options.is_timed) words.emplace_back("--timed");
  std::unique_ptr<StartedCluster> cluster(new StartedCluster);
  if (options.with_etcd) {
    std::vector<std::string> with_etcd = words;
    with_etcd.emplace_back("--etcd");
    auto process = BackgroundProcess::start_tessera(with_etcd);
    if (process.ok()) cluster->process_ = std::move(*process);
    cluster->has_etcd_ = process.ok();
  }
  if (!cluster->has_etcd_) {
    TESSERA_TRY(cluster->process_, BackgroundProcess::start_tessera(words));
  }
  cluster->master_ = cluster->process_->start_event().value("master", "");
  return cluster;
}

}  // namespace tessera::tools
