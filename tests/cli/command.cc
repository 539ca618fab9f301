#include "command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace tessera::cli {
namespace {

using model::testing::Ints;
using model::testing::ModelBuilder;

// Values that f16 holds, so that every device starts from the same numbers.
Tensor pattern(Shape dims, int modulus, float step) {
  Tensor tensor = Tensor::zeros(Format::kF32, std::move(dims));
  int i = 0;
  for (float& value : tensor.as<float>()) value = step * static_cast<float>(i++ % modulus - 3);
  return tensor;
}

ModelBuilder& add_conv(ModelBuilder& builder) {
  return builder.initializer("w", pattern({4, 3, 3, 3}, 7, 0.125f))
      .initializer("b", pattern({4}, 5, 0.5f))
      .node("Conv", {"x", "w", "b"}, {"c"}, {{"pads", Ints{1, 1, 1, 1}}}, "conv");
}

void save(const std::string& path, const ModelBuilder& builder) {
  write_text(path, builder.bytes());
}

int wait_status(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

CommandResult run_program(std::vector<std::string> words, std::vector<std::string> environment) {
  const std::string out = work_folder() + "/.out", err = work_folder() + "/.err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (std::string& variable : environment) envp.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
  envp.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(error, 0) << words[0];
  if (error != 0) return {};
  CommandResult result;
  result.status = wait_status(child);
  result.out = read_text(out);
  result.err = read_text(err);
  return result;
}

void remove_work_folder() {
  std::error_code error;
  std::filesystem::current_path("/", error);
  std::filesystem::remove_all(work_folder(), error);
}

}  // namespace

ModelBuilder small_model(bool open) {
  ModelBuilder builder(13);
  if (open) {
    add_conv(builder.open_input("x", Format::kF32, {"batch", "3", "height", "width"}))
        .node("Relu", {"c"}, {"y"}, {}, "relu")
        .output("y");
    return builder;
  }
  add_conv(builder.input("x", Format::kF32, {1, 3, 8, 8}))
      .node("Relu", {"c"}, {"r"}, {}, "relu")
      .node("MaxPool", {"r"}, {"y"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
            "pool")
      .output("y");
  return builder;
}

std::string read_line(std::FILE* from) {
  std::string text;
  for (int c = std::fgetc(from); c != EOF && c != '\n'; c = std::fgetc(from)) {
    text += static_cast<char>(c);
  }
  return text;
}

const std::string& work_folder() {
  static const std::string folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_cli_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    return name;
  }();
  return folder;
}

void prepare() {
  static const bool once = [] {
    std::filesystem::current_path(work_folder());
    std::atexit(remove_work_folder);
    save("small.onnx", small_model(false));
    save("open.onnx", small_model(true));
    ModelBuilder relu(13);
    save("relu.onnx",
         relu.input("x", Format::kF32, {2, 8}).node("Relu", {"x"}, {"y"}, {}, "r").output("y"));
    ModelBuilder host(13);
    add_conv(host.input("x", Format::kF32, {1, 3, 8, 8}))
        .node("Det", {"c"}, {"y"}, {}, "best")
        .output("y", Format::kF32, {1, 4});
    save("host.onnx", host);
    ModelBuilder strange(13);
    strange.input("x", Format::kF32, {1, 3}).node("Wobble", {"x"}, {"y"}, {}, "odd").output("y");
    save("strange.onnx", strange);
    Tensor w = Tensor::zeros(Format::kI8, {3, 2});
    w.as<std::int8_t>()[0] = 5;
    ModelBuilder integers(13);
    save("integers.onnx", integers.input("x", Format::kU8, {1, 3})
                              .initializer("w", w)
                              .node("MatMulInteger", {"x", "w"}, {"y"}, {}, "m")
                              .output("y"));
    write_text("text.onnx", "this is not a model\n");
    return true;
  }();
  (void)once;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  std::ofstream(path, std::ios::binary) << text;
}

CommandResult tessera(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment) {
  prepare();
  std::vector<std::string> words = {TESSERA_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(std::move(words), environment);
}

CommandResult shell(const std::string& line) {
  prepare();
  return run_program({"sh", "-c", line}, {"TESSERA=" TESSERA_PROGRAM});
}

std::vector<std::string> verbs() {
  std::istringstream help(tessera({"--help"}).out);
  std::string line;
  while (std::getline(help, line) && line != "Subcommands:") continue;
  std::vector<std::string> names;
  while (std::getline(help, line) && !line.empty()) {
    names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

CommandResult tessera_alone(const std::vector<std::string>& arguments) {
  prepare();
  const std::string copy = work_folder() + "/alone/tessera";
  write_text(copy, read_text(TESSERA_PROGRAM));
  std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
  std::vector<std::string> words = {copy};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(std::move(words), {});
}

}  // namespace tessera::cli
