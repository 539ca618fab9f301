// What one input may take, put in front of the flags that a fuzz program is started with: size,
// time (slow is a finding), memory. A flag that is given counts in place of one of these.
#include <array>
#include <string>
#include <vector>

#ifndef TESSERA_FUZZ_BYTES_MAX
#error "the build says how long an input may be"
#endif
#define TESSERA_TEXT_OF(number) #number
#define TESSERA_TEXT(number) TESSERA_TEXT_OF(number)

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static std::array<std::string, 4> limits = {"-max_len=" TESSERA_TEXT(TESSERA_FUZZ_BYTES_MAX),
                                              "-timeout=20", "-rss_limit_mb=2048",
                                              "-malloc_limit_mb=1024"};
  static std::vector<char*> arguments;
  arguments.assign(*argv, *argv + *argc);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    arguments.insert(arguments.begin() + 1 + static_cast<std::ptrdiff_t>(i), limits[i].data());
  }
  *argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  *argv = arguments.data();
  return 0;
}
