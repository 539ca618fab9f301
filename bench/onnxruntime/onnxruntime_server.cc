#include "onnxruntime_server.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/result.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace tessera::bench {
namespace {

Error lost(const std::string& what) { return {ErrorCode::kUnavailable, "ONNX Runtime: " + what}; }

// What a line says that is not the reply wanted: its "error" where it has one.
Error refused(const nlohmann::json& reply, const std::string& line) {
  const bool stated = reply.is_object() && reply.contains("error") && reply["error"].is_string();
  return lost(stated ? reply["error"].get<std::string>() : line);
}

// ONNX Runtime's names of elements.
constexpr std::pair<Format, const char*> kElementTypes[] = {
    {Format::kF32, "float32"}, {Format::kF16, "float16"}, {Format::kU8, "uint8"},
    {Format::kI8, "int8"},     {Format::kI32, "int32"},   {Format::kI64, "int64"},
    {Format::kBool, "bool"}};

Result<std::string> element_type(Format format) {
  for (const auto& [known, name] : kElementTypes) {
    if (known == format) return std::string(name);
  }
  return Error{ErrorCode::kInvalidArgument, "ONNX Runtime: an input of " +
                                                std::string(format_name(format)) +
                                                ", allowed f32, f16, u8, i8, i32, i64 and bool"};
}

Result<Format> format_of(const std::string& type) {
  for (const auto& [format, name] : kElementTypes) {
    if (type == name) return format;
  }
  return lost("an output of " + type + ", which is not read here");
}

// The child process, or the errno of what went wrong as a negative number.
pid_t spawn_node(const OnnxRuntimeServer::Options& options, int stdin_end, int stdout_end) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, stdin_end, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, stdout_end, STDOUT_FILENO);
  std::string words[] = {"node", options.script, options.packages, std::to_string(options.threads),
                         options.spinning ? "spinning" : "no-spinning"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(),
                  words[3].data(), words[4].data(), nullptr};
  pid_t child = -1;
  const int error = posix_spawnp(&child, "node", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : -error;
}

}  // namespace

Result<std::unique_ptr<OnnxRuntimeServer>> OnnxRuntimeServer::start(const Options& options) {
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0) return lost("no pipe");
  if (pipe2(up, O_CLOEXEC) != 0) {
    close(down[0]);
    close(down[1]);
    return lost("no pipe");
  }
  std::signal(SIGPIPE, SIG_IGN);
  const pid_t child = spawn_node(options, down[0], up[1]);
  close(down[0]);
  close(up[1]);
  if (child < 0) {
    close(down[1]);
    close(up[0]);
    return lost(std::string("cannot start 'node': ") + std::strerror(-child) +
                "; install Node.js and see that it is in PATH");
  }
  auto server = std::unique_ptr<OnnxRuntimeServer>(new OnnxRuntimeServer(child, down[1], up[0]));
  TESSERA_TRY(const std::string line, server->read_line());
  const auto hello = nlohmann::json::parse(line, nullptr, false);
  if (!hello.is_object() || !hello.contains("ready")) return refused(hello, line);
  server->version_ = hello["ready"].get<std::string>();
  return server;
}

OnnxRuntimeServer::~OnnxRuntimeServer() {
  close(to_child_);
  close(from_child_);
  waitpid(child_, nullptr, 0);
}

Status OnnxRuntimeServer::write_all(const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(to_child_, at, size);
    if (written <= 0) return lost("the process does not read");
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return {};
}

Status OnnxRuntimeServer::read_all(void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = read(from_child_, at, size);
    if (count <= 0) return lost("the process ended");
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::string> OnnxRuntimeServer::read_line() {
  std::string line;
  for (char c = 0;;) {
    TESSERA_RETURN_IF_ERROR(read_all(&c, 1));
    if (c == '\n') return line;
    line += c;
  }
}

Status OnnxRuntimeServer::send(const std::string& model, const Tensor& input) {
  TESSERA_TRY(const std::string type, element_type(input.format));
  const nlohmann::json header = {{"model", model}, {"type", type}, {"dims", input.dims}};
  const std::string line = header.dump() + "\n";
  TESSERA_RETURN_IF_ERROR(write_all(line.data(), line.size()));
  return write_all(input.bytes.data(), input.bytes.size());
}

Result<std::map<std::string, double>> OnnxRuntimeServer::layer_times(
    const std::string& model, const std::vector<Tensor>& inputs, int runs) {
  TESSERA_RETURN_IF_ERROR(send_inputs(model, inputs, runs));
  TESSERA_TRY(const std::string line, read_line());
  const auto reply = nlohmann::json::parse(line, nullptr, false);
  if (!reply.is_object() || !reply.contains("layers")) return refused(reply, line);
  return reply["layers"].get<std::map<std::string, double>>();
}

Result<OnnxRuntimeAnswer> OnnxRuntimeServer::run(const std::string& model, const Tensor& input) {
  TESSERA_RETURN_IF_ERROR(send(model, input));
  TESSERA_TRY(const std::string line, read_line());
  const auto reply = nlohmann::json::parse(line, nullptr, false);
  if (!reply.is_object() || !reply.contains("dims")) return refused(reply, line);
  OnnxRuntimeAnswer answer;
  answer.output = Tensor::zeros(Format::kF32, reply["dims"].get<Shape>());
  answer.milliseconds = reply["milliseconds"].get<double>();
  TESSERA_RETURN_IF_ERROR(read_all(answer.output.bytes.data(), answer.output.bytes.size()));
  return answer;
}

Status OnnxRuntimeServer::send_inputs(const std::string& model, const std::vector<Tensor>& inputs,
                                      int profiled_runs) {
  nlohmann::json header = {{"model", model}, {"inputs", nlohmann::json::array()}};
  if (profiled_runs > 0) header["profile"] = profiled_runs;
  for (const Tensor& input : inputs) {
    TESSERA_TRY(const std::string type, element_type(input.format));
    header["inputs"].push_back({{"type", type}, {"dims", input.dims}});
  }
  const std::string line = header.dump() + "\n";
  TESSERA_RETURN_IF_ERROR(write_all(line.data(), line.size()));
  for (const Tensor& input : inputs) {
    TESSERA_RETURN_IF_ERROR(write_all(input.bytes.data(), input.bytes.size()));
  }
  return {};
}

Result<OnnxRuntimeAnswers> OnnxRuntimeServer::run_all(const std::string& model,
                                                      const std::vector<Tensor>& inputs) {
  TESSERA_RETURN_IF_ERROR(send_inputs(model, inputs, 0));
  TESSERA_TRY(const std::string line, read_line());
  const auto reply = nlohmann::json::parse(line, nullptr, false);
  if (!reply.is_object() || !reply.contains("outputs")) return refused(reply, line);
  OnnxRuntimeAnswers answer;
  answer.milliseconds = reply["milliseconds"].get<double>();
  for (std::size_t i = 0; i < reply["outputs"].size(); ++i) {
    TESSERA_TRY(const Format format, format_of(reply["types"][i].get<std::string>()));
    Tensor output = Tensor::zeros(format, reply["outputs"][i].get<Shape>());
    TESSERA_RETURN_IF_ERROR(read_all(output.bytes.data(), output.bytes.size()));
    answer.outputs.push_back(std::move(output));
  }
  return answer;
}

}  // namespace tessera::bench
