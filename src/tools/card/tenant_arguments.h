// "--tenant model.onnx:cores=4,weight=2" as what a tenant of a virtual card asks for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/card_schedule.h"
#include "tessera/virtual_card.h"

namespace tessera::tools {

struct TenantArguments {
  std::string model;
  VirtualProcessorOptions processor;  // with a name
  TenantTerms terms;                  // of a schedule
  int seed = 0;                       // of its random inputs
};

// One for each text, in their order; `scheduled`: a schedule decides the cores. Tenants without a name are
// called as their file, the second of a name "name-2". An error names the text, the part and what is allowed.
Result<std::vector<TenantArguments>> parse_tenants(const std::vector<std::string>& texts,
                                                   bool scheduled);

// What may stand behind a model, for the verb's help.
std::string tenant_keys_text();

}  // namespace tessera::tools
