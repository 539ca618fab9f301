// Architecture file -> ChipConfig. Every message names file, line and key, what was found and what
// is allowed.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#undef NDEBUG  // toml++ would turn its assertions into assumptions

namespace {
// toml++ has assertions that a stranger's file can break ("[" and a line end). They are thrown to
// parse_toml() below, which makes an ordinary error of them.
struct TomlGaveUp {};
[[noreturn]] void toml_gave_up() { throw TomlGaveUp{}; }
}  // namespace

#define TOML_ASSERT(condition)        \
  do {                                \
    if (!(condition)) toml_gave_up(); \
  } while (false)
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 16  // an architecture file has none inside another
#define TOML_EXCEPTIONS 1  // without them its functions are noexcept, and memory can end in any
#include <toml++/toml.h>

#include "arch/chip_config.h"
#include "arch/config_checks.h"
#include "arch/config_table.h"
#include "arch/nearest.h"

namespace tessera {
namespace {

// "found 3.5 (a number with a fraction)", "found \"x\"", ...
std::string found_text(const toml::node& node) {
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  if (const auto* value = node.as_string()) return fmt::format("\"{}\"", value->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (const auto* value = node.as_floating_point()) {
    return fmt::format("{} (a number with a fraction)", value->get());
  }
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a table";
  return "a date or time";
}

class Parser {
 public:
  Parser(const toml::table& root, const std::string& file_name)
      : root_(root), file_name_(file_name) {}

  Result<ChipConfig> parse() {
    ChipConfig config;
    TESSERA_RETURN_IF_ERROR(check_names());
    for (const ConfigKey& key : config_keys()) {
      const toml::node* node = find(key.section, key.key);
      if (node != nullptr) TESSERA_RETURN_IF_ERROR(set(key, *node, config));
    }
    if (const auto violation = find_config_violation(config)) {
      const toml::node* node = find(violation->section, violation->key);
      return error_at(
          node, fmt::format("{}.{}: {}", violation->section, violation->key, violation->message));
    }
    return config;
  }

 private:
  Error error_at(const toml::node* node, const std::string& message) const {
    const std::string line = node == nullptr ? "" : fmt::format("{}:", node->source().begin.line);
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}:{} {}", file_name_, line, message)};
  }

  const toml::node* find(std::string_view section, std::string_view key) const {
    const toml::table* table = section.empty() ? &root_ : root_[section].as_table();
    return table == nullptr ? nullptr : table->get(key);
  }

  static bool is_section(std::string_view name) {
    for (const ConfigKey& key : config_keys()) {
      if (!name.empty() && key.section == name) return true;
    }
    return false;
  }

  // Every name in the file must be a name of the table.
  Status check_names() const {
    for (const auto& [name, node] : root_) {
      if (is_section(name.str())) {
        if (!node.is_table()) {
          return error_at(&node, fmt::format("{}: found {}, allowed a section [{}]", name.str(),
                                             found_text(node), name.str()));
        }
        TESSERA_RETURN_IF_ERROR(check_keys(name.str(), *node.as_table()));
      } else {
        TESSERA_RETURN_IF_ERROR(check_name("", name.str(), node));
      }
    }
    return {};
  }

  Status check_keys(std::string_view section, const toml::table& table) const {
    for (const auto& [name, node] : table) {
      TESSERA_RETURN_IF_ERROR(check_name(section, name.str(), node));
    }
    return {};
  }

  Status check_name(std::string_view section, std::string_view name, const toml::node& node) const {
    std::vector<std::string> names;
    for (const ConfigKey& key : config_keys()) {
      if (key.section == section && key.key == name) return {};
      // A wrong section is compared with sections, a wrong key with the keys beside it.
      if (section.empty() && node.is_table()) {
        if (!key.section.empty()) names.emplace_back(key.section);
      } else if (key.section == section) {
        names.push_back(key.path());
      }
    }
    const bool unknown_section = section.empty() && node.is_table();
    const std::string path =
        section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
    std::string nearest = nearest_name(path, names);
    if (unknown_section) {
      if (nearest.empty()) return error_at(&node, fmt::format("[{}]: unknown section", name));
      return error_at(&node,
                      fmt::format("[{}]: unknown section; did you mean [{}]?", name, nearest));
    }
    if (nearest.empty()) return error_at(&node, fmt::format("{}: unknown key", path));
    return error_at(&node, fmt::format("{}: unknown key; did you mean {}?", path, nearest));
  }

  Status set(const ConfigKey& key, const toml::node& node, ChipConfig& config) const {
    if (std::holds_alternative<MemberAccess<std::int32_t>>(key.member) ||
        std::holds_alternative<MemberAccess<std::int64_t>>(key.member)) {
      const auto* value = node.as_integer();
      if (value == nullptr || value->get() < key.minimum || value->get() > key.maximum) {
        return wrong_value(key, node);
      }
      if (const auto* access = std::get_if<MemberAccess<std::int32_t>>(&key.member)) {
        (*access)(config) = static_cast<std::int32_t>(value->get());
      } else {
        std::get<MemberAccess<std::int64_t>>(key.member)(config) = value->get();
      }
      return {};
    }
    const auto* text = node.as_string();
    if (text == nullptr || !set_config_word(key, text->get(), config)) {
      return wrong_value(key, node);
    }
    return {};
  }

  Error wrong_value(const ConfigKey& key, const toml::node& node) const {
    return error_at(&node, fmt::format("{}: found {}, allowed {}", key.path(), found_text(node),
                                       config_allowed_text(key)));
  }

  const toml::table& root_;
  const std::string& file_name_;
};

// toml++ bounds the nesting of values. But each dot of a key takes it one table deeper, wherever in
// the file it stands, and it goes through tables by recursion.
constexpr std::size_t kBytesMax = 1 << 20;
constexpr std::ptrdiff_t kDotsMax = 1000;

Status check_size(std::string_view text, const std::string& file_name) {
  if (text.size() > kBytesMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} bytes; an architecture file has at most {}", file_name,
                             text.size(), kBytesMax)};
  }
  const std::ptrdiff_t dots = std::count(text.begin(), text.end(), '.');
  if (dots > kDotsMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} dots, in keys, numbers and comments together; an architecture "
                             "file has at most {}",
                             file_name, dots, kDotsMax)};
  }
  return {};
}

Result<toml::table> parse_toml(std::string_view text, const std::string& file_name) {
  TESSERA_RETURN_IF_ERROR(check_size(text, file_name));
  try {
    return toml::parse(text);  // with a name it would copy that in a noexcept constructor
  } catch (const toml::parse_error& error) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}:{}: not TOML: {}", file_name, error.source().begin.line,
                             error.description())};
  } catch (const TomlGaveUp&) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: not TOML: a key or section name is malformed", file_name)};
  }
}

}  // namespace

Result<ChipConfig> parse_chip_config(std::string_view toml_text, const std::string& file_name) {
  TESSERA_TRY(const toml::table root, parse_toml(toml_text, file_name));
  return Parser(root, file_name).parse();
}

}  // namespace tessera
