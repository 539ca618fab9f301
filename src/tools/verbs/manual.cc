// tessera manual: manual pages and shell completion, written when the program is built. No help
// names it.
#include <fmt/format.h>

#include <filesystem>

#include "arch/builtin_profiles.h"
#include "arith/microscaling.h"
#include "base/output_file.h"
#include "tools/manual/page.h"
#include "tools/manual/shell_completion.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"
#include "zoo/zoo.h"

namespace tessera::tools {
namespace {

// Values that the code which takes them knows, and CLI11 does not.
std::vector<KnownValues> known_values() {
  const std::vector<std::string> devices = {"sim", "host", "ref"};
  std::vector<std::string> profiles, networks;
  std::vector<std::string> formats = {"f32", "bf16", "f16", "bfp", "int8"};
  for (int i = 0; i < kMicroElementCount; ++i) {
    formats.emplace_back(arith::micro_element_name(static_cast<MicroElement>(i)));
  }
  for (const BuiltinProfile& profile : builtin_profiles()) profiles.emplace_back(profile.name);
  for (const zoo::ZooNetwork& network : zoo::networks()) networks.emplace_back(network.name);
  return {{"", "--arch", profiles, true},
          {"", "--device", devices, false},
          {"compare", "--a", devices, false},
          {"compare", "--b", devices, false},
          // Names and shapes that only the model knows.
          {"", "--shape", {}, false},
          {"", "--preprocess", {}, false},
          {"compile", "--region-share", {}, false},
          {"run", "--priority", {}, false},
          {"run", "--arrival", {}, false},
          {"run", "--share", {}, false},
          {"", "--plant-fault", {}, false},
          {"", "--format", formats, false},
          {"bench", "--networks", networks, false},
          {"bench", "--instructions", {"all", "avx512vnni", "avx512", "avx2"}, false},
          {"zoo", "name", networks, false}};
}

Status write(const std::filesystem::path& folder, const std::string& name,
             const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // an error shows below
  TESSERA_TRY(OutputFile file,
              OutputFile::create((folder / name).string(), {.synchronised = false}));
  TESSERA_RETURN_IF_ERROR(file.write(text));
  return file.commit();
}

Status write_all(const CommandDescription& command, const std::filesystem::path& share) {
  const std::filesystem::path pages = share / "man/man1";
  TESSERA_RETURN_IF_ERROR(write(pages, command.name + ".1", manual_page(command, version())));
  for (const CommandDescription& verb : command.verbs) {
    TESSERA_RETURN_IF_ERROR(write(pages, command.name + "-" + verb.name + ".1",
                                  verb_manual_page(command, verb, version())));
  }
  const std::vector<KnownValues> known = known_values();
  TESSERA_RETURN_IF_ERROR(
      write(share / "bash-completion/completions", command.name, bash_completion(command, known)));
  TESSERA_RETURN_IF_ERROR(
      write(share / "zsh/site-functions", "_" + command.name, zsh_completion(command, known)));
  return write(share / "fish/vendor_completions.d", command.name + ".fish",
               fish_completion(command, known));
}

}  // namespace

Action manual_verb(CLI::App& app) {
  auto folder = std::make_shared<std::string>();  // shared with the returned action
  app.add_option("folder", *folder, "where man/, bash-completion/, zsh/ and fish/ go")->required();
  return [folder, command = app.get_parent()] { return write_all(describe(*command), *folder); };
}

}  // namespace tessera::tools
