#include "onnxruntime_pipe.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

namespace ocr {
namespace {

tessera::Error lost(const std::string& what) {
  return {tessera::ErrorCode::kUnavailable, "ONNX Runtime: " + what};
}

}  // namespace

tessera::Result<std::unique_ptr<OnnxRuntimeServer>> OnnxRuntimeServer::start(
    const std::string& script, const std::string& packages) {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) return lost("no pipe");
  std::signal(SIGPIPE, SIG_IGN);
  const pid_t child = fork();
  if (child < 0) return lost("no process");
  if (child == 0) {
    dup2(down[0], STDIN_FILENO);
    dup2(up[1], STDOUT_FILENO);
    for (const int end : {down[0], down[1], up[0], up[1]}) close(end);
    execlp("node", "node", script.c_str(), packages.c_str(), nullptr);
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  return std::unique_ptr<OnnxRuntimeServer>(new OnnxRuntimeServer(child, down[1], up[0]));
}

OnnxRuntimeServer::~OnnxRuntimeServer() {
  close(to_child_);
  close(from_child_);
  waitpid(child_, nullptr, 0);
}

tessera::Status OnnxRuntimeServer::write_all(const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(to_child_, at, size);
    if (written <= 0) return lost("the process does not read");
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return {};
}

tessera::Status OnnxRuntimeServer::read_all(void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = read(from_child_, at, size);
    if (count <= 0) return lost("the process ended");
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return {};
}

tessera::Result<std::string> OnnxRuntimeServer::read_line() {
  std::string line;
  for (char c = 0;;) {
    TESSERA_RETURN_IF_ERROR(read_all(&c, 1));
    if (c == '\n') return line;
    line += c;
  }
}

tessera::Result<tessera::Tensor> OnnxRuntimeServer::run(const std::string& model,
                                                        const tessera::Tensor& input) {
  const std::string header = nlohmann::json{{"model", model}, {"dims", input.dims}}.dump() + "\n";
  TESSERA_RETURN_IF_ERROR(write_all(header.data(), header.size()));
  TESSERA_RETURN_IF_ERROR(write_all(input.bytes.data(), input.bytes.size()));
  TESSERA_TRY(const std::string line, read_line());
  const auto reply = nlohmann::json::parse(line, nullptr, false);
  if (!reply.is_object() || !reply.contains("dims")) return lost(line);
  tessera::Tensor output =
      tessera::Tensor::zeros(tessera::Format::kF32, reply["dims"].get<tessera::Shape>());
  TESSERA_RETURN_IF_ERROR(read_all(output.bytes.data(), output.bytes.size()));
  return output;
}

}  // namespace ocr
