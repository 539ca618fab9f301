// Runs a fuzz target over the files of the folders given, in the order of their names. Stands in
// for libFuzzer in builds without it, so that every input that once failed stays a test. An input
// that takes long fails, too; it is the processor's time that counts, not that on the clock.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

#ifdef TESSERA_SANITIZED
constexpr double kSecondsMax = 25;
#else
constexpr double kSecondsMax = 5;
#endif

double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  int slow = 0;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
    std::printf("%s: %zu bytes\n", file.c_str(), bytes.size());
    std::fflush(stdout);  // the last line printed names the file that failed
    const double begin = processor_seconds();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    const double seconds = processor_seconds() - begin;
    if (seconds <= kSecondsMax) continue;
    std::printf("%s: %.1f s of processor time, allowed %.0f\n", file.c_str(), seconds, kSecondsMax);
    ++slow;
  }
  // A folder that was emptied by mistake must not pass.
  return files.empty() || slow > 0 ? 1 : 0;
}
