// What every page and file says of a layer's run.
#pragma once

#include <nlohmann/json.hpp>

#include "tessera/session.h"

namespace tessera::report {

// Of several cores also how the layer was shared out.
inline nlohmann::json layer_json(const LayerUse& layer) {
  nlohmann::json json = {
      {"name", layer.name},     {"kind", layer.kind},     {"dims", layer.output_dims},
      {"macs", layer.macs},     {"begin", layer.begin},   {"end", layer.end},
      {"neural", layer.neural}, {"planar", layer.planar}, {"dma", layer.dma}};
  const LayerSplit& split = layer.split;
  if (split.way.empty()) return json;
  json.update({{"split", split.way},
               {"cores", split.cores},
               {"reason", split.reason},
               {"before", split.before},
               {"movement", split.movement},
               {"weights", split.weights},
               {"dram_bytes_read", split.dram_bytes_read},
               {"dram_bytes_written", split.dram_bytes_written},
               {"merged_bytes", split.merged_bytes},
               {"ring_bytes", split.ring_bytes},
               {"network_bytes", split.network_bytes}});
  return json;
}

}  // namespace tessera::report
