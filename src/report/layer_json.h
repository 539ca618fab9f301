// What every page and file says of a layer's run.
#pragma once

#include <nlohmann/json.hpp>

#include "tessera/session.h"

namespace tessera::report {

inline nlohmann::json layer_json(const LayerUse& layer) {
  return {{"name", layer.name},     {"kind", layer.kind},     {"dims", layer.output_dims},
          {"macs", layer.macs},     {"begin", layer.begin},   {"end", layer.end},
          {"neural", layer.neural}, {"planar", layer.planar}, {"dma", layer.dma}};
}

}  // namespace tessera::report
