// The `tessera` command: one subcommand a verb, from the table below.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <sstream>
#include <system_error>

#include "arch/nearest.h"
#include "base/guarded.h"
#include "tessera/visible_text.h"
#include "tools/stack.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

constexpr int kInternalErrorStatus = 70;  // EX_SOFTWARE of sysexits.h

struct Verb {
  const char* name;
  const char* help;
  const char* example;
  Action (*make)(CLI::App&);
  bool listed = true;  // false: for the build of this program, no help names it
};

constexpr Verb kVerbs[] = {
    {"run", "compile, link and run a model",
     "tessera run model.onnx --input x=photo.png --device sim --trace run.json", run_verb},
    {"compile", "compile a model into a package", "tessera compile model.onnx -o model.tpkg",
     compile_verb},
    {"link", "link a package into a program", "tessera link model.tpkg -o model.tprog", link_verb},
    {"inspect", "describe a package, program or model", "tessera inspect model.tpkg", inspect_verb},
    {"asm", "assemble firmware text into a program", "tessera asm lstm.tasm -o lstm.tprog",
     asm_verb},
    {"disasm", "a program as text that assembles back", "tessera disasm model.tprog -o model.tasm",
     disasm_verb},
    {"derive", "a program as software that gives the same bits",
     "tessera derive model.tprog --to onnx -o model_derived.onnx --verify 4", derive_verb},
    {"compare", "compare two devices layer by layer, bit by bit",
     "tessera compare model.onnx --a sim --b host", compare_verb},
    {"conform", "run the ONNX backend tests below a folder",
     "tessera conform tests/node --arch f32", conform_verb},
    {"report", "a table of the layers' cycles, and an HTML report",
     "tessera report model.onnx --html report.html", report_verb},
    {"bench", "throughput, latency and the simulator's speed", "tessera bench model.onnx",
     bench_verb},
    {"card", "tenants on one card: who has what, cycles alone and together",
     "tessera card --tenant a.onnx:cores=4 --tenant b.onnx:cores=2,weight=2", card_verb},
    {"serve", "answer inference requests for a folder of models",
     "tessera serve --model-repository models --http-port 8000", serve_verb},
    {"cluster", "a cluster to try, and what there is in one", "tessera cluster try --nodes 4",
     cluster_verb},
    {"master", "decide which node of a cluster has what",
     "tessera master --store etcd:127.0.0.1:2379", master_verb},
    {"node", "offer the cards of this machine to a cluster",
     "tessera node --store etcd:127.0.0.1:2379 --id n1 --cards 2", node_verb},
    {"watch", "run a model again and again behind a live page",
     "tessera watch model.onnx --http 8080 --device sim --pace 1", watch_verb},
    {"top", "live figures of a running pipeline", "tessera top http://127.0.0.1:8080", top_verb},
    {"trace", "the events of a long run as a trace", "tessera trace run.jsonl -o run.json",
     trace_verb},
    {"zoo", "write a well-known network with made-up weights",
     "tessera zoo resnet50 --seed 1 -o resnet50.onnx", zoo_verb},
    {"repro", "published experiments again, beside the published figures",
     "tessera repro timing --data published", repro_verb},
    {"doctor", "check this installation", "tessera doctor", doctor_verb},
    {"manual", "write manual pages and shell completion", "tessera manual share", manual_verb,
     false},
};

// The command line's first word where it is neither an option nor a verb.
Status check_verb(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
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

int main_with(int argc, char** argv) {
  prepare_standard_streams();
  if (const Status status = make_room_on_the_stack(); !status.ok()) {
    return failed("tessera", status.error());
  }
  if (const Status status = check_verb(argc, argv); !status.ok()) {
    return failed("tessera", status.error());
  }
  CLI::App app{"Tessera: an open neural processor in software", "tessera"};
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.footer("Every verb explains itself: tessera VERB --help");
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Verb& verb : kVerbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    if (!verb.listed) sub->group("");
    sub->footer(fmt::format("Example:\n  {}", verb.example));
    actions.emplace_back(sub, verb.make(*sub));
    refuse_odd_values(*sub);
  }
  try {
    app.parse(argc, argv);
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
    const Status status = run(action);
    return status.ok() ? 0 : failed("tessera " + sub->get_name(), status.error());
  }
  return 1;
}

}  // namespace
}  // namespace tessera::tools

int main(int argc, char** argv) {
  std::set_terminate(tessera::tools::end_after_exception);
  try {
    return tessera::tools::main_with(argc, argv);
  } catch (...) {  // before a verb began: its options took more memory than there is
    const tessera::Error error = tessera::thrown_error("");
    std::fprintf(stderr, "tessera: %s\n",
                 tessera::visible_text(error.message, tessera::LineBreaks::kIndented).c_str());
    return 1;
  }
}
