// Loaded in front of a program by LD_PRELOAD: when it ends, the most memory that it had at once, in KiB, goes to the
// file that TESSERA_PEAK_MEMORY names. Counted from its own beginning, without the memory of the process that
// started it.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

__attribute__((destructor)) void write_peak() {
  const char* const path = std::getenv("TESSERA_PEAK_MEMORY");
  if (path == nullptr) return;
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  std::FILE* const out = std::fopen(path, "w");
  char line[256];
  while (status != nullptr && out != nullptr && std::fgets(line, sizeof line, status) != nullptr) {
    constexpr char kPeak[] = "VmHWM:";
    if (std::strncmp(line, kPeak, sizeof kPeak - 1) == 0) std::fputs(line + sizeof kPeak - 1, out);
  }
  if (status != nullptr) std::fclose(status);
  if (out != nullptr) std::fclose(out);
}

}  // namespace
