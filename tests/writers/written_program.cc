#include "written_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "concord/fold/join.h"
#include "concord/write/cpp.h"
#include "concord/write/pytorch.h"

namespace tessera::concord::testing {

Folder::Folder() {
  std::string pattern = ::testing::TempDir() + "/tessera_writers_XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no folder " << pattern;
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void write_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int run_command(const std::string& command, const std::string& log) {
  const int status = std::system((command + " > '" + log + "' 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<Tensor> run_files(const Software& software, const std::string& command,
                              const std::vector<Tensor>& inputs, const Folder& folder) {
  std::string line = command;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = folder.path("in" + std::to_string(i));
    write_bytes(path, inputs[i].bytes);
    line += " " + path;
  }
  for (std::size_t i = 0; i < software.outputs.size(); ++i) {
    line += " " + folder.path("out" + std::to_string(i));
  }
  EXPECT_EQ(run_command(line, folder.path("log")), 0) << read_text(folder.path("log"));
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < software.outputs.size(); ++i) {
    const Value& value = software.value(software.outputs[i].value);
    Tensor tensor = Tensor::zeros(value.format, value.dims);
    const std::string bytes = read_text(folder.path("out" + std::to_string(i)));
    EXPECT_EQ(bytes.size(), tensor.bytes.size()) << software.outputs[i].name;
    if (bytes.size() == tensor.bytes.size()) {
      std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(tensor.bytes.data()));
    }
    results.push_back(std::move(tensor));
  }
  return results;
}

namespace {

std::string build_cpp_at(const char* level, const Software& software, const Folder& folder) {
  const auto text = write_cpp(software);
  EXPECT_TRUE(text.ok()) << text.error().to_string();
  if (!text.ok()) return "false";
  const std::string source = folder.path("derived.cpp"), program = folder.path("derived");
  write_text(source, *text);
  const int status = run_command(std::string(TESSERA_CXX) + " -std=c++17 " + level +
                                     " -Wall -Wextra -Werror " + source + " -o " + program,
                                 folder.path("compiler"));
  EXPECT_EQ(status, 0) << read_text(folder.path("compiler"));
  return program;
}

}  // namespace

std::string build_cpp(const Software& software, const Folder& folder) {
  return build_cpp_at("-O1", software, folder);
}

std::string build_cpp_plainly(const Software& software, const Folder& folder) {
  return build_cpp_at("-O0", software, folder);
}

std::string build_pytorch(const Software& software, const Folder& folder) {
  const auto module = write_pytorch(software, "derived.weights");
  EXPECT_TRUE(module.ok()) << module.error().to_string();
  if (!module.ok()) return "false";
  write_text(folder.path("derived.py"), module->text);
  write_bytes(folder.path("derived.weights"), module->weights);
  return *find_python("torch") + " " + folder.path("derived.py");
}

std::optional<std::string> find_python(const std::string& module) {
  // An import may take seconds: asked once a module.
  static std::map<std::string, std::optional<std::string>> found;
  if (const auto known = found.find(module); known != found.end()) return known->second;
  std::optional<std::string>& result = found[module];
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    const std::string command = fmt::format("{} -c 'import numpy, {}'", python, module);
    if (run_command(command, "/dev/null") == 0) {
      return result = python;
    }
  }
  return result;
}

Software all_of(const std::vector<Software>& programs) {
  std::vector<const Software*> list;
  for (const Software& one : programs) list.push_back(&one);
  return joined(list);
}

}  // namespace tessera::concord::testing
