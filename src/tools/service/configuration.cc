#include "tools/service/configuration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "arch/flat_toml.h"
#include "arch/nearest.h"
#include "base/input_file.h"

namespace tessera::tools {
namespace {

constexpr std::int64_t kFileBytesMax = 1 << 20;
// That would mean nothing in a file.
const std::set<std::string> kNotSettings = {"config", "print-config", "help"};

std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : option.get_lnames().front();
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }
bool is_list(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

std::vector<CLI::Option*> settings_of(CLI::App& verb) {
  std::vector<CLI::Option*> settings;
  for (CLI::Option* const option : verb.get_options()) {
    const std::string name = name_of(*option);
    if (!name.empty() && !kNotSettings.contains(name)) settings.push_back(option);
  }
  return settings;
}

enum class Type : std::uint8_t { kInteger, kNumber, kText, kFlag };

Type type_of(const CLI::Option& option) {
  if (is_flag(option)) return Type::kFlag;
  const std::string name = option.get_type_name();
  if (name.starts_with("INT") || name.starts_with("UINT")) return Type::kInteger;
  return name.starts_with("FLOAT") ? Type::kNumber : Type::kText;
}

// "an integer from 0 to 65535", by what the option's help says of its type and range.
std::string allowed_text(const CLI::Option& option) {
  const Type type = type_of(option);
  std::string text = type == Type::kFlag      ? "true or false"
                     : type == Type::kInteger ? "an integer"
                     : type == Type::kNumber  ? "a number"
                                              : "a text";
  const std::string name = option.get_type_name();
  const std::size_t range = name.find(" in ["), end = name.rfind(']');
  if (range != std::string::npos && end != std::string::npos) {
    std::string bounds = name.substr(range + 5, end - range - 5);
    const std::size_t between = bounds.find(" - ");
    if (between != std::string::npos) bounds.replace(between, 3, " to ");
    text += " from " + bounds;
  }
  const std::size_t words = name.find('{');
  if (words != std::string::npos) text += " of " + name.substr(words);
  return is_list(option) ? "a list, each " + text : text;
}

bool fits(Type type, FlatKey::Kind kind) {
  switch (type) {
    case Type::kFlag:
      return kind == FlatKey::Kind::kBoolean;
    case Type::kInteger:
      return kind == FlatKey::Kind::kInteger;
    case Type::kNumber:
      return kind == FlatKey::Kind::kInteger || kind == FlatKey::Kind::kNumber;
    case Type::kText:
      return kind == FlatKey::Kind::kText;
  }
  return false;
}

// Why the option does not take the value; empty: it does.
std::string refusal(CLI::Option& option, std::string value) {
  for (int i = 0;; ++i) {
    const CLI::Validator* validator = nullptr;
    try {
      validator = option.get_validator(i);
    } catch (const CLI::OptionNotFound&) {  // behind the last
      return "";
    }
    std::string why = (*validator)(value);
    if (!why.empty()) return why;
  }
}

Status check_value(CLI::Option& option, const FlatKey& key) {
  const Type type = type_of(option);
  const bool is_one = is_list(option) ? key.kind == FlatKey::Kind::kList : fits(type, key.kind);
  if (!is_one && !(is_list(option) && fits(type, key.kind))) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' is {}; allowed is {}", key.name,
                                                          key.found, allowed_text(option))};
  }
  for (const std::string& value : key.values) {
    // A byte 0 would end it on a command line.
    if (value.find('\0') == std::string::npos &&
        (type == Type::kFlag || refusal(option, value).empty()))
      continue;
    return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' is {}; allowed is {}", key.name,
                                                          key.found, allowed_text(option))};
  }
  return {};
}

bool is_given(const std::string& name, const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return word == "--" + name || word.starts_with("--" + name + "=");
  });
}

Error unknown_key(const FlatKey& key, const std::vector<CLI::Option*>& settings) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : settings) names.push_back(name_of(*option));
  const std::string nearest = nearest_name(key.name, names);
  return {ErrorCode::kInvalidArgument,
          fmt::format("'{}' is no setting;{} allowed are {}", key.name,
                      nearest.empty() ? "" : fmt::format(" did you mean '{}'?", nearest),
                      fmt::join(names, ", "))};
}

void add_words(const CLI::Option& option, const FlatKey& key, std::vector<std::string>& words) {
  if (is_flag(option)) {
    if (key.values.front() == "true") words.push_back("--" + key.name);
    return;
  }
  for (const std::string& value : key.values)
    words.push_back(fmt::format("--{}={}", key.name, value));
}

}  // namespace

void add_configuration_options(CLI::App& verb) {
  const std::string file =
      "TOML file with a key for each option; what the command line says counts";
  const std::string print = "print every setting with its value, and do nothing else";
  verb.add_option("--config", file)->type_name("TEXT");
  verb.add_flag("--print-config", print);
}

Result<ConfiguredWords> parse_configuration(std::string_view text, const std::string& file_name,
                                            CLI::App& verb, const std::vector<std::string>& words) {
  TESSERA_TRY(const std::vector<FlatKey> keys, parse_flat_toml(text, file_name));
  const std::vector<CLI::Option*> settings = settings_of(verb);
  ConfiguredWords configured;
  for (const FlatKey& key : keys) {
    const auto found = std::ranges::find_if(
        settings, [&](const CLI::Option* option) { return name_of(*option) == key.name; });
    const Status checked =
        found == settings.end() ? Status(unknown_key(key, settings)) : check_value(**found, key);
    if (!checked.ok()) {
      return Error{checked.error().code,
                   fmt::format("{}:{}: {}", file_name, key.line, checked.error().message)};
    }
    if (is_given(key.name, words)) continue;
    add_words(**found, key, configured.words);
    configured.from_file[key.name] = key.line;
  }
  configured.words.insert(configured.words.end(), words.begin(), words.end());
  return configured;
}

Result<ConfiguredWords> with_configuration(CLI::App& verb, const std::vector<std::string>& words) {
  std::string path;
  for (std::size_t i = 0; i < words.size(); ++i) {
    constexpr std::string_view kWithValue = "--config=";
    if (words[i] == "--config" && i + 1 < words.size()) path = words[i + 1];
    if (words[i].starts_with(kWithValue)) path = words[i].substr(kWithValue.size());
  }
  if (path.empty()) return ConfiguredWords{.words = words, .from_file = {}};
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  // It is read more than once: by the command, and by the program that it starts.
  if (kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::character) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("configuration file '{}' is a pipe or device; name a file", path)};
  }
  const auto bytes = read_input(path, {.bytes_max = kFileBytesMax});
  if (!bytes.ok()) {
    return bytes.error().with_context(fmt::format("cannot read configuration file '{}'", path));
  }
  return parse_configuration({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path,
                             verb, words);
}

bool prints_configuration(const CLI::App& verb) {
  const CLI::Option* const option = verb.get_option_no_throw("--print-config");
  return option != nullptr && option->count() > 0;
}

namespace {

using Values = std::vector<std::string>;

nlohmann::json value_json(const CLI::Option& option, const std::string& value) {
  if (type_of(option) == Type::kText) return value;
  const auto number = nlohmann::json::parse(value, nullptr, false);
  return number.is_number() ? number : nlohmann::json(value);
}

// Null: it has none.
nlohmann::json setting_json(const CLI::Option& option) {
  if (is_flag(option)) return option.count() > 0;
  Values values = option.count() > 0 ? option.results() : Values{};
  if (values.empty() && !option.get_default_str().empty()) values = {option.get_default_str()};
  if (values.empty()) return nullptr;
  if (!is_list(option)) return value_json(option, values.front());
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& value : values) list.push_back(value_json(option, value));
  return list;
}

std::string replaced_bytes(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string configuration_text(const CLI::App& verb, const ConfiguredWords& configured) {
  const bool json =
      verb.get_option_no_throw("--json") != nullptr && verb.get_option("--json")->count() > 0;
  nlohmann::json document = nlohmann::json::object();
  std::string text;
  for (const CLI::Option* const option : verb.get_options()) {
    const std::string name = name_of(*option);
    if (name.empty() || kNotSettings.contains(name)) continue;
    const auto line = configured.from_file.find(name);
    const std::string from = line != configured.from_file.end()
                                 ? fmt::format("line {} of the file", line->second)
                             : option->count() > 0 ? "command line"
                                                   : "default";
    const nlohmann::json value = setting_json(*option);
    document[name] = {{"value", value}, {"from", from}};
    const std::string setting = value.is_null()
                                    ? fmt::format("# {} =", name)
                                    : fmt::format("{} = {}", name, replaced_bytes(value));
    text += fmt::format("{:<40} # {}; {}\n", setting, from, option->get_description());
  }
  return json ? replaced_bytes(document) + "\n" : text;
}

}  // namespace tessera::tools
