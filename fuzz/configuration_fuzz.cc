// Configuration files of programs that run on and on: what is taken is words of a command line that the same options
// take.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "tools/service/configuration.h"

namespace {

using namespace tessera;  // a fuzz target

struct Settings {
  std::string address = "127.0.0.1";
  int port = 7400;
  double seconds = 0;
  bool flag = false;
  std::vector<std::string> names;

  void add_to(CLI::App& app) {
    app.add_option("--address", address)->capture_default_str();
    app.add_option("--port", port)->check(CLI::Range(0, 65535))->capture_default_str();
    app.add_option("--seconds", seconds)->check(CLI::Range(0.0, 1e9));
    app.add_flag("--flag", flag);
    app.add_option("--name", names);
    tools::add_configuration_options(app);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Settings settings;
  CLI::App app;
  settings.add_to(app);
  const auto configured = tools::parse_configuration(text, "c.toml", app, {"--port=1"});
  if (!configured.ok()) {
    TESSERA_CHECK(configured.error().message.starts_with("c.toml:"), "'{}'",
                  configured.error().message);
    return 0;
  }
  app.parse(std::vector<std::string>(configured->words.rbegin(), configured->words.rend()));
  TESSERA_CHECK(settings.port == 1, "port {}", settings.port);
  (void)tools::configuration_text(app, *configured);
  return 0;
}
