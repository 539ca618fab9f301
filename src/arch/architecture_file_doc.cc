// Prints docs/formats/architecture_file.md from the table of keys (`make docs`).
#include <cstdio>

#include "arch/chip_config.h"

int main() {
  std::fputs(tessera::chip_config_markdown().c_str(), stdout);
  return 0;
}
