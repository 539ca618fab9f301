#include "tools/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <sstream>
#include <string_view>
#include <system_error>

#include "arch/nearest.h"
#include "base/guarded.h"
#include "tessera/visible_text.h"
#include "tools/service/configuration.h"
#include "tools/stack.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

constexpr int kInternalErrorStatus = 70;  // EX_SOFTWARE of sysexits.h

// The command line's first word where it is neither an option nor a verb.
Status check_verb(std::span<const Verb> verbs, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    if (std::string_view(verb.name) == argv[1]) return {};
    if (verb.listed) names.emplace_back(verb.name);
  }
  const std::string nearest = nearest_name(argv[1], names);
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("unknown verb '{}';{} allowed {}", argv[1],
                           nearest.empty() ? "" : fmt::format(" did you mean '{}'?", nearest),
                           fmt::join(names, ", "))};
}

// What no part of the program caught, in whichever thread: a message and an exit, no signal.
[[noreturn]] void end_after_exception() {
  Error error{ErrorCode::kInternal, "ended for no reason it knows"};
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (...) {
      error = thrown_error("");
    }
  }
  std::fprintf(stderr, "tessera: internal error: %s\n",
               visible_text(error.message, LineBreaks::kIndented).c_str());
  std::_Exit(kInternalErrorStatus);
}

int failed(const std::string& name, const Error& error) {
  // Where this fails there is nothing left to do.
  const std::string text = visible_text(error.to_string(), LineBreaks::kIndented);
  std::fputs(fmt::format("{}: {}\n", name, text).c_str(), stderr);
  return 1;
}

// The verb, and whether all that it printed has arrived.
Status run(const Action& action) {
  Status status = guarded("", [&]() -> Status {
    try {
      return action();
    } catch (const std::system_error& thrown) {  // printing throws it
      if (std::ferror(stdout) == 0) throw;
      return standard_output_failed(thrown.code().value());
    }
  });
  const Status printed = finish_standard_output();
  return status.ok() ? printed : status;
}

// Its whole text is a number of the type: nothing saturates, wraps or is left over.
template <typename Number>
std::string refuse_integer(const std::string& text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, value);
  if (failed == std::errc() && stopped == end) return "";
  return fmt::format("'{}' is no integer from {} to {}", text, std::numeric_limits<Number>::min(),
                     std::numeric_limits<Number>::max());
}

// What CLI11 takes and no option means. No range leaves out what is neither below nor above it.
void refuse_odd_values(CLI::App& app) {
  const CLI::Validator number(
      [](const std::string& text) {
        double value = 0;
        const bool holds = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
        return holds ? std::string() : fmt::format("{} is no finite number", text);
      },
      "");
  const CLI::Validator integer(refuse_integer<std::int64_t>, "");
  const CLI::Validator natural(refuse_integer<std::uint64_t>, "");
  const CLI::Validator filled(
      [](const std::string& text) { return text.empty() ? "it is empty" : ""; }, "");
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("FLOAT")) option->check(number);
    if (type.starts_with("INT")) option->check(integer);
    if (type.starts_with("UINT")) option->check(natural);
    if (type.starts_with("TEXT") && !option->get_positional()) option->check(filled);
  }
}

// Whether the command line may need the verb's options: those of all verbs take longer to make than a short
// verb takes.
bool is_asked_for(const Verb& verb, std::span<const Verb> verbs, int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view first = argv[1];
  if (first == "--help" || first == "-h" || first == "--version") return false;
  const auto named =
      std::ranges::find(verbs, first, [](const Verb& one) { return std::string_view(one.name); });
  // A verb that no help names describes the others.
  return named == verbs.end() || !named->listed || &verb == &*named;
}

// The command line with what a configuration file adds to it, of a verb that takes one.
Result<ConfiguredWords> configured_words(int argc, char** argv,
                                         const std::vector<std::pair<CLI::App*, Action>>& verbs) {
  const std::vector<std::string> given(argv + std::min(argc, 1), argv + argc);
  for (const auto& [verb, action] : verbs) {
    if (given.empty() || verb->get_name() != given[0]) continue;
    if (verb->get_option_no_throw("--config") == nullptr) continue;
    TESSERA_TRY(ConfiguredWords configured,
                with_configuration(*verb, {given.begin() + 1, given.end()}));
    configured.words.insert(configured.words.begin(), given[0]);
    return configured;
  }
  return ConfiguredWords{.words = given, .from_file = {}};
}

int main_with(std::span<const Verb> verbs, int argc, char** argv) {
  prepare_standard_streams();
  if (const Status status = make_room_on_the_stack(); !status.ok()) {
    return failed("tessera", status.error());
  }
  if (const Status status = check_verb(verbs, argc, argv); !status.ok()) {
    return failed("tessera", status.error());
  }
  CLI::App app{"Tessera: an open neural processor in software", "tessera"};
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.footer("Every verb explains itself: tessera VERB --help");
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    if (!verb.listed) sub->group("");
    if (!is_asked_for(verb, verbs, argc, argv)) continue;
    sub->footer(fmt::format("Example:\n  {}", verb.example));
    actions.emplace_back(sub, verb.make(*sub));
    refuse_odd_values(*sub);
  }
  const auto configured = configured_words(argc, argv, actions);
  if (!configured.ok()) return failed(fmt::format("tessera {}", argv[1]), configured.error());
  try {
    app.parse(std::vector<std::string>(configured->words.rbegin(), configured->words.rend()));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int status = app.exit(error, out, err);  // help and version are for standard output
    std::fputs(visible_text(err.str(), LineBreaks::kKept).c_str(), stderr);
    const Status printed = run([&]() -> Status {
      show_lines(out.str());
      return {};
    });
    return printed.ok() ? status : failed("tessera", printed.error());
  }
  for (const auto& [sub, action] : actions) {
    if (!sub->parsed()) continue;
    const Status status = run([&, verb = sub, act = action]() -> Status {
      if (!prints_configuration(*verb)) return act();
      show_lines(configuration_text(*verb, *configured));
      return {};
    });
    return status.ok() ? 0 : failed("tessera " + sub->get_name(), status.error());
  }
  return 1;
}

}  // namespace

int run_command_line(std::span<const Verb> verbs, int argc, char** argv) {
  std::set_terminate(end_after_exception);
  try {
    return main_with(verbs, argc, argv);
  } catch (...) {  // before a verb began: its options took more memory than there is
    const Error error = thrown_error("");
    std::fprintf(stderr, "tessera: %s\n",
                 visible_text(error.message, LineBreaks::kIndented).c_str());
    return 1;
  }
}

}  // namespace tessera::tools
