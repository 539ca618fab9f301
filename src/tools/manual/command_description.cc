#include "tools/manual/command_description.h"

#include <algorithm>
#include <string_view>

namespace tessera::tools {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// CLI11 writes "TYPE:CHECK": "TEXT:{a,b}", "INT:INT in [1 - 64]", "TEXT:DIR".
void describe_value(const std::string& type, OptionDescription& option) {
  const std::size_t colon = type.find(':');
  option.value = type.substr(0, colon);
  if (colon == std::string::npos) return;
  const std::string check = type.substr(colon + 1);
  if (check.starts_with('{') && check.ends_with('}')) {
    option.choices = split(std::string_view(check).substr(1, check.size() - 2), ',');
  } else {
    option.range = check;
  }
}

std::vector<std::string> names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::ranges::sort(names);  // the set's order is that of addresses
  return names;
}

// "[host]" is how CLI11 states the default of an option with several values.
std::string default_of(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  return text;
}

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription described;
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  described.argument = described.names.empty();
  if (described.argument) described.names.push_back(option.get_name(true));
  described.help = option.get_description();
  if (option.get_type_size_max() > 0) describe_value(option.get_type_name(), described);
  described.default_value = default_of(option);
  described.needs = names_of(option.get_needs());
  described.excludes = names_of(option.get_excludes());
  described.required = option.get_required();
  described.repeated = option.get_items_expected_max() > 1;
  return described;
}

// The footer is "Example:", a line, and perhaps notes.
void describe_footer(const std::string& footer, CommandDescription& described) {
  constexpr std::string_view kHead = "Example:\n  ";
  if (!footer.starts_with(kHead)) return;
  const std::size_t end = std::min(footer.find('\n', kHead.size()), footer.size());
  described.example = footer.substr(kHead.size(), end - kHead.size());
  described.notes = footer.substr(std::min(end + 1, footer.size()));
}

}  // namespace

CommandDescription describe(const CLI::App& app) {
  CommandDescription described;
  described.name = app.get_name();
  described.help = app.get_description();
  describe_footer(app.get_footer(), described);
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) described.options.push_back(describe_option(*option));
  }
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) described.verbs.push_back(describe(*verb));
  }
  return described;
}

}  // namespace tessera::tools
