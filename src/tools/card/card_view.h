// Tenants of a virtual card that run again and again behind a live page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/card/card_run.h"

namespace tessera::tools {

struct CardViewOptions {
  std::string listen;  // PORT or ADDRESS:PORT
  double seconds = 0;  // 0: until it is interrupted
  bool timing_only = false, json = false;
};

// A device and a pipeline of a runtime for each tenant that has cores. Prints where the page is, then, at the end,
// what each has made. An error: the first run that failed.
Status view_tenants(const VirtualCard& card, const std::vector<CardTenant>& tenants,
                    const CardViewOptions& options);

}  // namespace tessera::tools
