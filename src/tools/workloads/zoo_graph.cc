#include "tools/workloads/zoo_graph.h"

#include "network/network.h"

namespace tessera::tools {

Result<std::shared_ptr<const graph::Graph>> zoo_graph(const std::string& name,
                                                      const ChipConfig& chip,
                                                      const LoadOptions& options, int bits) {
  TESSERA_TRY(const zoo::ZooNetwork network, zoo::find_network(name));
  TESSERA_TRY(const TemporaryFile file, TemporaryFile::make());
  TESSERA_TRY(const zoo::Summary summary, write_zoo_file(network, {.bits = bits}, file.path()));
  (void)summary;
  return network::load_graph(file.path(), chip, options);
}

}  // namespace tessera::tools
