#include "tools/manual/shell_completion.h"

#include <fmt/format.h>

namespace tessera::tools {
namespace {

// What is offered for an option's value.
struct Offer {
  std::vector<std::string> words;
  bool files = false;
};

Offer offer_for(const std::string& verb, const OptionDescription& option,
                const std::vector<KnownValues>& known) {
  if (!option.choices.empty()) return {option.choices, false};
  for (const KnownValues& values : known) {
    const bool meant = values.verb.empty() || values.verb == verb;
    if (meant && values.name == option.name()) return {values.values, values.files};
  }
  return {{}, option.value == "TEXT"};
}

const OptionDescription* first_argument(const CommandDescription& verb) {
  for (const OptionDescription& option : verb.options) {
    if (option.argument) return &option;
  }
  return nullptr;
}

std::string replaced(std::string_view text, char from, std::string_view to) {
  std::string result;
  for (const char c : text) {
    if (c == from) {
      result += to;
    } else {
      result += c;
    }
  }
  return result;
}

// One word of bash and of zsh.
std::string shell_word(std::string_view text) { return "'" + replaced(text, '\'', "'\\''") + "'"; }

std::vector<std::string> option_names(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const OptionDescription& option : command.options) {
    if (!option.argument) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::vector<std::string> verb_names(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const CommandDescription& verb : command.verbs) names.push_back(verb.name);
  return names;
}

constexpr const char* kBashHead =
    R"(# Completion for bash; written by the command itself from its options.
_tessera() {
  local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} verb='' words='' files='' number=''
  # The shell splits "--option=value" into three words.
  if [[ $word == = ]]; then
    word=''
  elif [[ $option == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  local before
  for before in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $before != -* ]]; then
      verb=$before
      break
    fi
  done
  case "$verb $option" in
)";

constexpr const char* kBashTail = R"(  esac
  if [[ -z $words$files$number ]]; then
    if [[ $word == -* ]]; then
      case "$verb" in
@OPTIONS@      esac
    else
      case "$verb" in
@ARGUMENTS@        *) files=yes ;;
      esac
    fi
  fi
  COMPREPLY=()
  [[ -n $words ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _tessera tessera
)";

std::string bash_offer(const Offer& offer) {
  if (offer.words.empty()) return offer.files ? "files=yes" : "number=yes";
  return fmt::format("words={}{}", shell_word(fmt::format("{}", fmt::join(offer.words, " "))),
                     offer.files ? " files=yes" : "");
}

std::string inserted(std::string text, std::string_view mark, const std::string& with) {
  text.replace(text.find(mark), mark.size(), with);
  return text;
}

// Shells take backslashes, brackets and colons in a description for their own.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '[' || c == ']' || c == ':') result += '\\';
    result += c;
  }
  return result;
}

// ":what it is:what is offered" of an option's value.
std::string zsh_value(const OptionDescription& option, const Offer& offer) {
  std::string action = offer.files ? "_files" : " ";
  if (!offer.words.empty()) {
    const std::string words = fmt::format("{}", fmt::join(offer.words, " "));
    action = offer.files ? fmt::format(" _tessera_words_or_files {}", words) : "(" + words + ")";
  }
  return fmt::format(":{}:{}", zsh_text(option.argument ? option.name() : option.value), action);
}

// One line of _arguments for each name of the option.
std::string zsh_option(const std::string& verb, const OptionDescription& option,
                       const std::vector<KnownValues>& known) {
  std::string lines;
  const std::string value =
      option.value.empty() ? "" : zsh_value(option, offer_for(verb, option, known));
  if (option.argument) {
    return fmt::format("          {} \\\n", shell_word((option.repeated ? "*" : "1") + value));
  }
  for (const std::string& name : option.names) {
    const char* const form = option.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    lines += fmt::format("          {} \\\n",
                         shell_word(fmt::format("{}{}{}[{}]{}", option.repeated ? "*" : "", name,
                                                form, zsh_text(option.help), value)));
  }
  return lines;
}

// A word of fish.
std::string fish_word(std::string_view text) {
  return "'" + replaced(replaced(text, '\\', "\\\\"), '\'', "\\'") + "'";
}

std::string fish_option(const std::string& condition, const OptionDescription& option,
                        const Offer& offer) {
  std::string line = "complete -c tessera -n " + fish_word(condition);
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) line += offer.files ? " -r -F" : " -x";
  if (!offer.words.empty()) {
    line += " -a " + fish_word(fmt::format("{}", fmt::join(offer.words, " ")));
  }
  return line + " -d " + fish_word(option.help) + "\n";
}

std::string fish_argument(const std::string& condition, const Offer& offer) {
  std::string line = "complete -c tessera -n " + fish_word(condition);
  if (offer.files) line += " -F";
  if (!offer.words.empty()) {
    line += " -a " + fish_word(fmt::format("{}", fmt::join(offer.words, " ")));
  }
  return line + "\n";
}

}  // namespace

std::string bash_completion(const CommandDescription& command,
                            const std::vector<KnownValues>& known) {
  std::string script = kBashHead;
  std::string options =
      fmt::format("        '') words='{}' ;;\n", fmt::join(option_names(command), " "));
  std::string arguments =
      fmt::format("        '') words='{}' ;;\n", fmt::join(verb_names(command), " "));
  for (const CommandDescription& verb : command.verbs) {
    for (const OptionDescription& option : verb.options) {
      if (option.argument || option.value.empty()) continue;
      const std::string offer = bash_offer(offer_for(verb.name, option, known));
      std::string pattern;
      for (const std::string& name : option.names) {
        pattern += (pattern.empty() ? "'" : " | '") + verb.name + " " + name + "'";
      }
      script += fmt::format("    {}) {} ;;\n", pattern, offer);
    }
    options +=
        fmt::format("        {}) words='{}' ;;\n", verb.name, fmt::join(option_names(verb), " "));
    if (const OptionDescription* argument = first_argument(verb)) {
      const Offer offer = offer_for(verb.name, *argument, known);
      if (offer.words.empty()) continue;
      arguments += fmt::format("        {}) {} ;;\n", verb.name, bash_offer(offer));
    }
  }
  return script + inserted(inserted(kBashTail, "@OPTIONS@", options), "@ARGUMENTS@", arguments);
}

std::string zsh_completion(const CommandDescription& command,
                           const std::vector<KnownValues>& known) {
  std::string script =
      "#compdef tessera\n"
      "# Completion for zsh; written by the command itself from its options.\n"
      "_tessera_words_or_files() {\n"
      "  _alternative \"words:word:($*)\" 'files:file:_files'\n"
      "}\n"
      "_tessera() {\n"
      "  local curcontext=$curcontext state line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C \\\n";
  for (const OptionDescription& option : command.options) script += zsh_option("", option, known);
  script +=
      "          '1:verb:->verb' \\\n"
      "          '*::argument:->argument' && return\n"
      "  case $state in\n"
      "    verb)\n"
      "      local -a verbs=(\n";
  for (const CommandDescription& verb : command.verbs) {
    script += "        " + shell_word(verb.name + ":" + zsh_text(verb.help)) + "\n";
  }
  script +=
      "      )\n"
      "      _describe -t verbs verb verbs\n"
      "      ;;\n"
      "    argument)\n"
      "      case $line[1] in\n";
  for (const CommandDescription& verb : command.verbs) {
    script += fmt::format("      {})\n        _arguments \\\n", verb.name);
    for (const OptionDescription& option : verb.options) {
      script += zsh_option(verb.name, option, known);
    }
    script += "          && return\n        ;;\n";
  }
  return script +
         "      esac\n"
         "      ;;\n"
         "  esac\n"
         "  return 1\n"
         "}\n"
         "_tessera \"$@\"\n";
}

std::string fish_completion(const CommandDescription& command,
                            const std::vector<KnownValues>& known) {
  std::string script =
      "# Completion for fish; written by the command itself from its options.\n"
      "complete -c tessera -f\n";
  for (const OptionDescription& option : command.options) {
    script += fish_option("__fish_use_subcommand", option, {});
  }
  for (const CommandDescription& verb : command.verbs) {
    script += fmt::format("complete -c tessera -n __fish_use_subcommand -a {} -d {}\n", verb.name,
                          fish_word(verb.help));
    const std::string condition = "__fish_seen_subcommand_from " + verb.name;
    for (const OptionDescription& option : verb.options) {
      const Offer offer = option.value.empty() ? Offer() : offer_for(verb.name, option, known);
      script +=
          option.argument ? fish_argument(condition, offer) : fish_option(condition, option, offer);
    }
  }
  return script;
}

}  // namespace tessera::tools
