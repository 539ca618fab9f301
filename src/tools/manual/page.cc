#include "tools/manual/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tessera::tools {
namespace {

constexpr std::size_t kLineBytesMax = 78;

// Text as it shall be printed: nothing in it is an instruction.
std::string literal(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";  // stays a hyphen-minus, so that an option can be copied
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Lines that are filled; a line that begins as an instruction does is kept from being one.
std::string paragraph(std::string_view text) {
  std::string lines, line;
  const auto end_line = [&] {
    if (line.starts_with('.') || line.starts_with('\'')) lines += "\\&";
    lines += line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string word = literal(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!line.empty() && line.size() + 1 + word.size() > kLineBytesMax) end_line();
    line += (line.empty() ? "" : " ") + word;
  }
  end_line();
  return lines;
}

// Lines as they are.
std::string example(std::string_view text) {
  std::string lines = ".EX\n";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += "\\&" + literal(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + ".EE\n";
}

std::string bold(std::string_view text) { return "\\fB" + literal(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + literal(text) + "\\fR"; }

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = upper(text.substr(0, 1))[0];
  return text;
}

std::string title(const std::string& name, const std::string& version) {
  return fmt::format(
      ".\\\" Written by the command itself from its options.\n"
      ".TH {} 1 \"\" \"Tessera {}\" \"Tessera\"\n",
      literal(upper(name)), version);
}

// "--output TEXT", or an argument's name.
std::string term(const OptionDescription& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += (text.empty() ? "" : ", ") + (option.argument ? italic(name) : bold(name));
  }
  if (!option.argument && !option.value.empty()) text += " " + italic(option.value);
  return text;
}

std::string range_text(const OptionDescription& option) {
  const std::string& range = option.range;
  const std::size_t open = range.find('['), close = range.find(']');
  const std::size_t between = range.find(" - ");
  if (open != std::string::npos && close != std::string::npos && between != std::string::npos) {
    return fmt::format("From {} to {}.", range.substr(open + 1, between - open - 1),
                       range.substr(between + 3, close - between - 3));
  }
  if (range == "NONNEGATIVE") return "Not negative.";
  if (range == "DIR") return "A folder that exists.";
  return range.empty() ? "" : "Must be " + range + ".";
}

// What the command line knows of the option, a sentence each.
std::string option_text(const OptionDescription& option) {
  std::string text = option.help;
  if (!text.empty() && !text.ends_with('.')) text += ".";
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) text += " " + sentence;
  };
  if (!option.choices.empty()) {
    add(fmt::format("One of {}.", fmt::join(option.choices, ", ")));
  }
  add(range_text(option));
  if (!option.default_value.empty()) add(fmt::format("Default: {}.", option.default_value));
  if (option.required && !option.argument) add("Required.");
  if (option.repeated) add("May be given several times.");
  if (!option.needs.empty()) add(fmt::format("Needs {}.", fmt::join(option.needs, ", ")));
  if (!option.excludes.empty()) add(fmt::format("Not with {}.", fmt::join(option.excludes, ", ")));
  return text;
}

std::string section(const char* heading, const std::vector<OptionDescription>& options,
                    bool arguments) {
  std::string text;
  for (const OptionDescription& option : options) {
    if (option.argument != arguments) continue;
    text += ".TP\n" + term(option) + "\n" + paragraph(option_text(option));
  }
  return text.empty() ? text : fmt::format(".SH {}\n{}", heading, text);
}

// "tessera compile [OPTIONS] -o TEXT model"
std::string synopsis(const CommandDescription& command, const CommandDescription& verb) {
  std::string line = bold(command.name + " " + verb.name) + " [" + italic("OPTIONS") + "]";
  for (const OptionDescription& option : verb.options) {
    if (option.required && !option.argument) {
      line += " " + bold(option.name()) + " " + italic(option.value);
    }
  }
  for (const OptionDescription& option : verb.options) {
    if (!option.argument) continue;
    line += option.required ? " " + italic(option.name()) : " [" + italic(option.name()) + "]";
  }
  return ".SH SYNOPSIS\n" + line + "\n";
}

std::string name_section(const std::string& name, const std::string& help) {
  return fmt::format(".SH NAME\n{} \\- {}\n", literal(name), literal(help));
}

std::string exit_status() {
  return ".SH EXIT STATUS\n.TP\n0\nDone.\n"
         ".TP\n1\nAn error, with its message on standard error.\n"
         ".TP\n70\nAn internal error: a defect of this program.\n"
         ".TP\n100 and above\nAn option is wrong or missing.\n";
}

std::string environment() {
  std::string text = ".SH ENVIRONMENT\n";
  const auto add = [&](const char* name, const char* help) {
    text += ".TP\n" + bold(name) + "\n" + paragraph(help);
  };
  add("TESSERA_CACHE",
      "Where the scripts of the source tree put what they fetch, ONNX Runtime for one; "
      "otherwise XDG_CACHE_HOME/tessera or HOME/.cache/tessera.");
  add("CXX", "The compiler of derive --with c++.");
  return text;
}

}  // namespace

std::string manual_page(const CommandDescription& command, const std::string& version) {
  std::string page = title(command.name, version);
  const std::size_t colon = command.help.find(": ");
  page += name_section(command.name,
                       colon == std::string::npos ? command.help : command.help.substr(colon + 2));
  page += ".SH SYNOPSIS\n" + bold(command.name) + " " + italic("VERB") + " [" + italic("OPTIONS") +
          "]\n.br\n" + bold(command.name) + " " + bold("--help") + " | " + bold("--version") + "\n";
  page += ".SH DESCRIPTION\n" +
          paragraph(
              "Compiles a neural network, runs it on a virtual processor with the results and "
              "the cycles that the processor has, and shows where the cycles went. Each verb "
              "has a page of its own, and explains itself with --help.");
  page += ".SH VERBS\n";
  for (const CommandDescription& verb : command.verbs) {
    page += ".TP\n" + bold(verb.name) + "\n" + paragraph(capitalised(verb.help) + ".");
  }
  page += section("OPTIONS", command.options, false) + exit_status() + environment();
  page += ".SH FILES\n.TP\n" + italic("PREFIX/share/tessera/arch/") + "\n" +
          paragraph("Architecture files, to be copied, changed and given with --arch.");
  page += ".SH EXAMPLES\n";
  std::string lines;
  for (const CommandDescription& verb : command.verbs) lines += verb.example + "\n";
  page += example(lines) + ".SH SEE ALSO\n";
  for (const CommandDescription& verb : command.verbs) {
    const bool last = &verb == &command.verbs.back();
    page +=
        fmt::format(".BR {} (1){}\n", literal(command.name + "-" + verb.name), last ? "" : " ,");
  }
  return page;
}

std::string verb_manual_page(const CommandDescription& command, const CommandDescription& verb,
                             const std::string& version) {
  const std::string name = command.name + "-" + verb.name;
  std::string page = title(name, version) + name_section(name, verb.help);
  page += synopsis(command, verb);
  page += ".SH DESCRIPTION\n" + paragraph(capitalised(verb.help) + ".");
  page += section("ARGUMENTS", verb.options, true) + section("OPTIONS", verb.options, false);
  if (!verb.notes.empty()) page += ".SH NOTES\n" + example(verb.notes);
  page += exit_status();
  if (!verb.example.empty()) page += ".SH EXAMPLES\n" + example(verb.example);
  return page + ".SH SEE ALSO\n" + fmt::format(".BR {} (1)\n", literal(command.name));
}

}  // namespace tessera::tools
