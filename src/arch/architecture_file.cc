// Loading by name or path, the digest, and the printed forms of a configuration.

#include "arch/architecture_file.h"

#include <fmt/format.h>

#include <vector>

#include "arch/builtin_profiles.h"
#include "arch/config_checks.h"
#include "arch/config_table.h"
#include "arch/format_choice.h"
#include "arch/nearest.h"
#include "base/input_file.h"

namespace tessera {
namespace {

constexpr std::int64_t kFileBytesMax = std::int64_t{1} << 20;

bool is_path(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".toml");
}

Error unknown_profile(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const BuiltinProfile& profile : builtin_profiles()) {
    names.emplace_back(profile.name);
    list += fmt::format("{}{}", list.empty() ? "" : ", ", profile.name);
  }
  const std::string nearest = nearest_name(name, names);
  const std::string hint = nearest.empty() ? "" : fmt::format(" did you mean '{}'?", nearest);
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("unknown architecture '{}';{} allowed {}, or the path of a .toml file",
                           name, hint, list)};
}

// FNV-1a over "path=value\n" of the keys that `belongs` names, behind `digest`; but for what the
// processor does without and what is the host's.
std::uint64_t digest_of(const ChipConfig& config, std::uint64_t digest,
                        bool (*belongs)(const ConfigKey&)) {
  static const ChipConfig defaults;
  for (const ConfigKey& key : config_keys()) {
    if (key.of_host() || !belongs(key)) continue;
    const std::string value = config_value_text(key, config);
    if (key.optional && value == config_value_text(key, defaults)) continue;
    for (const char c : fmt::format("{}={}\n", key.path(), value)) {
      digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
  }
  return digest;
}
constexpr std::uint64_t kEmptyDigest = 0xcbf29ce484222325u;

}  // namespace

std::uint64_t fingerprint(const ChipConfig& config) {
  return digest_of(config, kEmptyDigest, [](const ConfigKey& key) { return !key.of_card(); });
}

std::uint64_t card_fingerprint(const ChipConfig& config) {
  return digest_of(config, fingerprint(config), [](const ConfigKey& key) { return key.of_card(); });
}

namespace {

Result<ChipConfig> load_profile(const std::string& name_or_path) {
  if (is_path(name_or_path)) {
    const auto bytes = read_input(name_or_path, {.bytes_max = kFileBytesMax, .descriptors = true});
    if (!bytes.ok()) {
      return bytes.error().with_context(
          fmt::format("cannot read architecture file '{}'", name_or_path));
    }
    return parse_chip_config({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                             name_or_path);
  }
  for (const BuiltinProfile& profile : builtin_profiles()) {
    if (profile.name == name_or_path) {
      return parse_chip_config(profile.toml_text, fmt::format("arch/{}.toml", profile.name));
    }
  }
  return unknown_profile(name_or_path);
}

}  // namespace

Result<ChipConfig> load_chip_config(const std::string& name_or_path) {
  const std::size_t plus = name_or_path.rfind('+');
  // A path may have a '+' of its own.
  if (plus == std::string::npos || name_or_path.ends_with(".toml")) {
    return load_profile(name_or_path);
  }
  const std::string format = name_or_path.substr(plus + 1);
  TESSERA_TRY(ChipConfig config, load_profile(name_or_path.substr(0, plus)));
  TESSERA_RETURN_IF_ERROR(apply_format_choice(format, config.formats));
  if (const auto violation = find_config_violation(config)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("architecture '{}' with format '{}': {}.{}: {}", config.name, format,
                             violation->section, violation->key, violation->message)};
  }
  config.name += "+" + format;
  return config;
}

std::span<const std::string_view> builtin_chip_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const BuiltinProfile& profile : builtin_profiles()) list.push_back(profile.name);
    return list;
  }();
  return names;
}

std::string describe(const ChipConfig& config) {
  std::string text;
  for (const ConfigKey& key : config_keys()) {
    text += fmt::format("{:<40} = {:<13} # {}\n", key.path(), config_value_text(key, config),
                        key.document);
  }
  return text;
}

std::string chip_config_markdown() {
  std::string text =
      "# The architecture file\n\n"
      "<!-- Written from the table in src/arch/config_table.cc; `make docs` writes it again. "
      "-->\n\n"
      "A processor is described by a TOML file (`arch/*.toml`). Keys that a file leaves out keep\n"
      "the value in the column \"default\". A key that is not in this table is an error, and so "
      "is\n"
      "a value outside the range; the message names file, line, key, what was found and what is\n"
      "allowed.\n\n"
      "A profile that is built in is chosen by its name (`--arch edge`), a file by its path\n"
      "(`--arch my/chip.toml`; anything with a `/` or ending in `.toml` is a path).\n";
  std::string_view section = "?";
  for (const ConfigKey& key : config_keys()) {
    if (key.section != section) {
      section = key.section;
      text += section.empty() ? std::string("\n## Top of the file\n")
                              : fmt::format("\n## [{}]\n", section);
      text += "\n| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n";
    }
    text +=
        fmt::format("| `{}` | `{}` | {} | {} |\n", key.key, config_value_text(key, ChipConfig{}),
                    config_allowed_text(key), key.document);
  }
  return text + "\n## Rules between keys\n\n" + config_rules_markdown();
}

}  // namespace tessera
