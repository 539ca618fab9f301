// Prints docs/formats/architecture_file.md from the table of keys (`make docs`).
#include <cstdio>

#include "arch/architecture_file.h"

int main() {
  std::fputs(tessera::chip_config_markdown().c_str(), stdout);
  return 0;
}
