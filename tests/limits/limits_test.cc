// The command where the machine or the caller sets limits that are too small, or asks for what is
// absurd: it ends with a status and a message, never with a signal or an exception that nothing
// caught.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/test_volume.h"
#include "command.h"

namespace tessera::cli {
namespace {

using Arguments = std::vector<std::string>;

struct Limits {
  std::optional<rlim_t> address_space = {}, stack = {}, files = {};  // RLIMIT_AS, _STACK, _NOFILE
  std::optional<int> threads = {};                                   // that can be begun
};

std::string text_of(const Limits& limits) {
  std::string text;
  if (limits.address_space) text += fmt::format(" memory {}", *limits.address_space);
  if (limits.stack) text += fmt::format(" stack {}", *limits.stack);
  if (limits.files) text += fmt::format(" files {}", *limits.files);
  if (limits.threads) text += fmt::format(" threads {}", *limits.threads);
  return text;
}

void set_limit(int what, const std::optional<rlim_t>& most) {
  if (!most) return;
  const rlimit limit = {*most, *most};
  if (setrlimit(static_cast<__rlimit_resource>(what), &limit) != 0) _exit(126);
}

// Its standard error goes to the file; what it prints does not matter.
[[noreturn]] void become_tessera(const Limits& limits, std::vector<char*>& words,
                                 const std::string& errors) {
  const int nothing = open("/dev/null", O_RDWR);
  const int file = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  if (limits.threads) {
    setenv("TESSERA_THREADS", std::to_string(*limits.threads).c_str(), 1);
    setenv("LD_PRELOAD", TESSERA_NO_MORE_THREADS, 1);
  }
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_STACK, limits.stack);
  set_limit(RLIMIT_NOFILE, limits.files);
  set_limit(RLIMIT_AS, limits.address_space);
  execv(words[0], words.data());
  _exit(126);
}

CommandResult tessera_within(const Limits& limits, Arguments arguments) {
  prepare();
  arguments.insert(arguments.begin(), TESSERA_PROGRAM);
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  const std::string errors = work_folder() + "/.limited";
  const pid_t child = fork();
  if (child == 0) become_tessera(limits, words, errors);
  int status = 0;
  waitpid(child, &status, 0);
  CommandResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.err = read_text(errors);
  return result;
}

// A status of the command's own (of CLI11 for a line that it cannot read), with a message.
void expect_orderly(const Limits& limits, const Arguments& arguments) {
  const CommandResult result = tessera_within(limits, arguments);
  std::string line = fmt::format("{}", fmt::join(arguments, " "));
  if (line.size() > 200) line = line.substr(0, 200) + "...";
  const std::string place = fmt::format("tessera {} with{}: status {}, {}", line, text_of(limits),
                                        result.status, result.err);
  const bool usage = result.status >= 100 && result.status <= 127;
  EXPECT_TRUE(result.status == 0 || result.status == 1 || usage) << place;
  if (result.status != 0) {
    EXPECT_FALSE(result.err.empty()) << place;
  }
  for (const char* word : {"internal error", "broken invariant", "terminate called"}) {
    EXPECT_EQ(result.err.find(word), std::string::npos) << place;
  }
}

void write_firmware() {
  prepare();  // whose folder it is
  write_text("small.tasm",
             "firmware 1\narch \"brainwave\"\nqueue x [256] in\nqueue y [256] out\n"
             "matrix W [256, 256] in matrix = random 1 0.1\nchain \"c\"\n  read x\n  product W\n"
             "  sigmoid\n  write y\nend\n");
  write_text("no_outputs.tasm",
             "firmware 1\narch \"brainwave\"\nqueue x [256] in\nvector h [256] in initial\n"
             "chain \"c\"\n  read x\n  write h\nend\n");
}

// Every verb at work.
std::vector<Arguments> commands() {
  write_firmware();
  EXPECT_EQ(tessera({"compile", "small.onnx", "-o", "small.tpkg"}).status, 0);
  EXPECT_EQ(tessera({"link", "small.tpkg", "-o", "small.tprog"}).status, 0);
  write_text("no.jsonl", "{}\n");
  return {
      {"run", "small.onnx", "--trace", "t.json", "--html", "t.html"},
      {"run", "small.onnx", "--device", "host", "--threads", "4"},
      {"run", "small.onnx", "--device", "ref", "--json"},
      {"run", "small.tasm"},
      {"run", "small.tprog", "--device", "host"},
      {"compile", "small.onnx", "-o", "t.tpkg"},
      {"link", "small.tpkg", "-o", "t.tprog"},
      {"inspect", "small.tprog"},
      {"inspect", "small.onnx", "--graph"},
      {"asm", "small.tasm", "-o", "t.tprog"},
      {"disasm", "small.tprog"},
      {"derive", "small.tprog", "--to", "onnx", "-o", "t.onnx", "--verify", "1"},
      {"derive", "small.tasm", "--to", "cpp", "-o", "t.cpp"},
      {"compare", "small.onnx"},
      {"conform", "."},
      {"report", "small.onnx", "--html", "t.html"},
      {"bench", "small.onnx", "--tasks", "4", "--device", "sim,host", "--streams", "2"},
      {"watch", "small.onnx", "--http", "0", "--seconds", "0.1"},
      {"trace", "no.jsonl", "-o", "t.json"},
      {"zoo", "vit_tiny", "-o", "zoo.onnx"},
      {"doctor"},
  };
}

// One in this number of what follows, a different one at each call.
class Sample {
 public:
  explicit Sample(int everyday, int whole = 1)
      : one_in_(std::max(visit_one_in(everyday, 8 * everyday), whole)) {}
  bool next() { return number_++ % one_in_ == 0; }

 private:
  const int one_in_;
  int number_ = 0;
};

TEST(Limits, AddressSpace) {
  Sample sample(7);
  for (const Arguments& command : commands()) {
    for (rlim_t megabytes = 40; megabytes <= 1000; megabytes += 20 + megabytes / 4) {
      if (sample.next()) expect_orderly({.address_space = megabytes << 20}, command);
    }
  }
}

TEST(Limits, Threads) {
  Sample sample(7);
  for (const Arguments& command : commands()) {
    for (int threads = 0; threads <= 12; ++threads) {
      if (sample.next()) expect_orderly({.threads = threads}, command);
    }
  }
}

TEST(Limits, StackAndOpenFiles) {
  Sample sample(7);
  for (const Arguments& command : commands()) {
    for (const rlim_t kilobytes : {32, 96, 256, 512}) {
      if (sample.next()) expect_orderly({.stack = kilobytes << 10}, command);
    }
    for (const rlim_t files : {3, 4, 6, 8, 12}) {
      if (sample.next()) expect_orderly({.files = files}, command);
    }
  }
}

const std::vector<std::string>& odd_values() {
  static const std::vector<std::string> values = {"0",
                                                  "-1",
                                                  "2147483648",
                                                  "9223372036854775807",
                                                  "18446744073709551616",
                                                  "1e308",
                                                  "-1e308",
                                                  "nan",
                                                  "inf",
                                                  "",
                                                  "\xff\xfe",
                                                  std::string(100'000, 'A'),
                                                  "x=1x1x9223372036854775807",
                                                  "x=9223372036854775807x9223372036854775807x3x3",
                                                  "x=",
                                                  "=",
                                                  "x=1x3x-1",
                                                  "x=random:99999999999999999999",
                                                  "x=\xff",
                                                  "bfp:99999999999:1",
                                                  "mean=nan,1e308,-1;std=0,0,0;order=rgb",
                                                  "pre=99999999999999999999",
                                                  "/dev/null",
                                                  "tcp:256.0.0.1:99999999",
                                                  "{}{}%s%n"};
  return values;
}

// Each option of the verb with each odd value, behind arguments that are right.
void sweep_options(Sample& sample, const Arguments& command, const Arguments& options) {
  for (const std::string& option : options) {
    for (const std::string& value : odd_values()) {
      if (!sample.next()) continue;
      Arguments arguments = command;
      arguments.push_back(std::string(option).append("=").append(value));
      expect_orderly({.address_space = rlim_t{3} << 30}, arguments);
    }
  }
}

TEST(Limits, OddOptions) {
  (void)commands();
  Sample sample(31, 4);
  const Arguments model = {"--arch", "--format", "--shape", "--weights", "--tile-budget"};
  const auto with_model = [&](Arguments options) {
    options.insert(options.begin(), model.begin(), model.end());
    return options;
  };
  sweep_options(sample, {"run", "small.onnx"},
                with_model({"--input", "--preprocess", "--device", "--cores", "--threads",
                            "--output", "--trace", "--html", "--stream", "--out"}));
  sweep_options(sample, {"compile", "small.onnx", "-o", "t.tpkg"}, model);
  sweep_options(sample, {"link", "small.tpkg", "-o", "t.tprog"}, {"--cores", "--arch"});
  sweep_options(sample, {"inspect", "small.onnx"}, {"--shape", "--arch"});
  sweep_options(sample, {"asm", "small.tasm", "-o", "t.tprog"}, {"--arch"});
  sweep_options(sample, {"derive", "small.tprog", "-o", "t.onnx"},
                {"--to", "--arch", "--format", "--cores", "--input", "--plant-fault"});
  sweep_options(sample, {"compare", "small.onnx"},
                with_model({"--a", "--b", "--input", "--plant-fault"}));
  sweep_options(sample, {"report", "small.onnx"}, with_model({"--html", "--input", "--threads"}));
  sweep_options(sample, {"bench", "small.onnx", "--tasks", "3"},
                with_model({"--device", "--kernels", "--pace", "--streams", "--in-flight",
                            "--stage-threads", "--compare-every", "--threads"}));
  sweep_options(sample, {"watch", "small.onnx", "--http", "0", "--seconds", "0.05"},
                {"--device", "--kernels", "--threads", "--pace", "--jobs", "--input"});
  sweep_options(sample, {"trace", "no.jsonl", "-o", "t.json"}, {"--from", "--to"});
  sweep_options(sample, {"zoo", "vit_tiny", "-o", "zoo.onnx"}, {"--seed"});
}

TEST(Limits, ProgramWithoutOutputs) {
  write_firmware();
  prepare();
  for (const char* target : {"onnx", "pytorch", "cpp"}) {
    const CommandResult result =
        tessera({"derive", "no_outputs.tasm", "--to", target, "-o", "t.derived"});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err,
              "tessera derive: the program has no outputs, so there is nothing to derive; let it "
              "write an output queue or DRAM output   [invalid argument]\n");
  }
}

// Bytes that are no UTF-8, in names of files and in a text's own names.
TEST(Limits, NamesThatAreNotUtf8) {
  prepare();
  write_firmware();
  const CommandResult watched = tessera({"watch", "small.onnx", "--http", "0", "--seconds", "0.05",
                                         "--json", "--record", "r\xff.jsonl"});
  EXPECT_EQ(watched.status, 0) << watched.err;
  EXPECT_NE(watched.out.find("\"r\xEF\xBF\xBD.jsonl\""), std::string::npos) << watched.out;
  std::string text = read_text("small.tasm");
  text.replace(text.find("chain \"c\""), 9, "chain \"c\\xff\\x1b[31m\"");
  write_text("n\xff.tasm", text);
  for (const Arguments& arguments :
       {Arguments{"asm", "n\xff.tasm", "-o", "n\xff.tprog"},
        {"inspect", "n\xff.tprog"},
        {"disasm", "n\xff.tprog"},
        {"run", "n\xff.tprog"},
        {"run", "n\xff.tasm"},
        {"derive", "n\xff.tprog", "--to", "onnx", "-o", "n\xff.onnx", "--verify", "1"}}) {
    Arguments with_json = arguments;
    with_json.emplace_back("--json");
    const CommandResult result = tessera(with_json);
    EXPECT_EQ(result.status, 0) << arguments[0] << ": " << result.err;
    EXPECT_FALSE(result.json().is_discarded()) << arguments[0] << ": " << result.out;
  }
}

// Keys, brackets and objects inside each other, far deeper than a small stack.
TEST(Limits, DeepFiles) {
  prepare();
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  constexpr int kDeep = 200'000;
  write_text("keys.toml", "a" + repeated(".a", kDeep) + " = 1\n");
  write_text("tables.toml", "[a" + repeated(".a", 1000) + "]\nx = 1\n");
  write_text("values.toml", "a = " + repeated("[", kDeep) + repeated("]", kDeep) + "\n");
  write_text("deep.jsonl", repeated("{\"a\":", kDeep) + "1" + repeated("}", kDeep) + "\n");
  write_text("parentheses.tasm", "firmware 1\narch \"brainwave\"\nset a = " + repeated("(", kDeep) +
                                     "1" + repeated(")", kDeep) + "\n");
  const Limits limits = {.stack = rlim_t{256} << 10};
  for (const char* arch : {"keys.toml", "tables.toml", "values.toml"}) {
    expect_orderly(limits, {"run", "small.onnx", "--arch", arch});
  }
  expect_orderly(limits, {"trace", "deep.jsonl", "-o", "t.json"});
  expect_orderly(limits, {"asm", "parentheses.tasm", "-o", "t.tprog"});
}

}  // namespace
}  // namespace tessera::cli
