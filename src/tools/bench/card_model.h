// tessera bench --suite card-model: the model that splits are chosen by against the virtual card.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera::tools {

struct CardModelSuite {
  std::string arch;
  std::string
      networks;  // of the zoo, names with commas between; "" = all of it, where there is no folder
  std::string models;  // a folder: every model in it; or empty
  int cores = 0;       // 0: 1, 2, 4, ... up to those of the card
  int random = 0;  // choices of splits at random to compare with; the best tenth, at most 20, runs
  bool json = false;
};
Status run_card_model_suite(const CardModelSuite& suite);

}  // namespace tessera::tools
