// A job, as the two drivers read it:
//
//   {"packages": FOLDER, "levels": [...], "threads": [...],
//    "programs": [{"name", "file", "stem", "inputs": [{"name", "format", "dims"}],
//                  "outputs": [...], "vectors": [[FILE, ...], ...]}]}
//
// Output i of vector v under configuration c goes to STEM_cC_vV_I.
#include "tools/derived/runtimes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/output_file.h"
#include "concord/fold/fold.h"
#include "concord/fold/join.h"
#include "concord/write/cpp.h"
#include "concord/write/onnx.h"
#include "concord/write/pytorch.h"
#include "package/container.h"
#include "tessera/file.h"
#include "tools/child_process.h"
#include "tools/driver_text.h"
#include "tools/files/roles.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

constexpr const char* kOnnxRuntimePackage = "onnxruntime-node@1.30.0";
constexpr const char* kLevels[] = {"disabled", "basic", "extended", "all"};
constexpr int kThreads[] = {1, 2};
constexpr int kNoPackage = 3;  // the Python driver's status without PyTorch
// On one command line.
constexpr std::size_t kFilesMax = 8000;

Status write_text(const std::string& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

// Into the folder of this process alone, which goes when it ends.
Status write_scratch(const std::string& path, std::span<const std::byte> bytes) {
  TESSERA_TRY(OutputFile file, OutputFile::create(path, {.synchronised = false}));
  TESSERA_RETURN_IF_ERROR(file.write(bytes));
  return file.commit();
}

struct Configuration {
  std::string level;  // of ONNX Runtime's optimiser
  int threads = 1;
  std::string name;
};

// The work of one call: files in a scratch folder.
class Job {
 public:
  Job(std::span<const DerivedProgram> programs, const DerivedRuntimeOptions& options,
      ScratchFolder& folder)
      : programs_(programs), options_(options), folder_(folder) {}

  Status write_inputs() {
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      for (std::size_t v = 0; v < programs_[p].vectors.size(); ++v) {
        const std::vector<Tensor>& inputs = programs_[p].vectors[v].inputs;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          TESSERA_RETURN_IF_ERROR(write_scratch(input(p, v, i), inputs[i].bytes));
        }
      }
    }
    return {};
  }

  Status run_onnxruntime() {
    TESSERA_TRY(const std::string packages, packages_folder());
    for (const char* level : kLevels) {
      for (const int threads : kThreads) {
        configurations_.push_back(
            {level, threads,
             fmt::format("level {}, {} thread{}", level, threads, threads == 1 ? "" : "s")});
      }
    }
    TESSERA_RETURN_IF_ERROR(write_job({{"packages", packages}}, "onnx", ".onnx"));
    TESSERA_RETURN_IF_ERROR(write_text(folder_.path("driver.cjs"), kOnnxRuntimeDriver));
    const auto child =
        run_child({"node", folder_.path("driver.cjs"), folder_.path("job.json")}, log());
    if (!child.ok()) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("ONNX Runtime is run by Node.js: {}; install it (Debian: nodejs)",
                               child.error().message)};
    }
    return check(*child, "ONNX Runtime");
  }

  Status run_python() {
    configurations_.emplace_back();
    TESSERA_RETURN_IF_ERROR(write_job({}, "pytorch", ".py"));
    TESSERA_RETURN_IF_ERROR(write_text(folder_.path("driver.py"), kPythonDriver));
    for (const char* python : {"python3", "/usr/bin/python3"}) {
      const auto child =
          run_child({python, folder_.path("driver.py"), folder_.path("job.json")}, log());
      if (!child.ok() || child->status == kNoPackage) continue;
      return check(*child, "PyTorch");
    }
    return Error{
        ErrorCode::kUnavailable,
        "there is no python3 with PyTorch and NumPy; install them (Debian: python3-torch)"};
  }

  // One program of all of them: each vector is one run.
  Status run_cpp() {
    configurations_.emplace_back();
    std::vector<const concord::Software*> all;
    std::size_t vectors = 0;
    for (const DerivedProgram& program : programs_) {
      all.push_back(program.software);
      vectors = std::max(vectors, program.vectors.size());
    }
    std::string source = programs_[0].file;
    if (all.size() > 1 || source.empty()) {
      source = folder_.path("derived.cpp");
      TESSERA_TRY(
          const std::string text,
          concord::write_cpp(concord::folded(all.size() == 1 ? *all[0] : concord::joined(all))));
      TESSERA_RETURN_IF_ERROR(write_text(source, text));
    }
    TESSERA_RETURN_IF_ERROR(compile(source));
    std::vector<std::string> words = {folder_.path("derived")};
    for (std::size_t v = 0; v < vectors; ++v) {
      add_files(v, words);
      if (v + 1 < vectors && words.size() < kFilesMax) continue;
      TESSERA_TRY(const ChildResult child, run_child(words, log()));
      TESSERA_RETURN_IF_ERROR(check(child, "the compiled program"));
      words.resize(1);
    }
    return {};
  }

  Result<std::vector<std::vector<DerivedRun>>> read_outputs() const {
    std::vector<std::vector<DerivedRun>> all(programs_.size());
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      for (std::size_t c = 0; c < configurations_.size(); ++c) {
        DerivedRun run{configurations_[c].name, {}};
        for (std::size_t v = 0; v < programs_[p].vectors.size(); ++v) {
          if (!is_run(p, c, v)) {
            run.outputs.emplace_back();
            continue;
          }
          TESSERA_TRY(std::vector<Tensor> outputs, read_vector(p, c, v));
          run.outputs.push_back(std::move(outputs));
        }
        all[p].push_back(std::move(run));
      }
    }
    return all;
  }

 private:
  std::string log() const { return folder_.path("log"); }
  std::string stem(std::size_t p) const { return folder_.path(fmt::format("p{}", p)); }
  std::string input(std::size_t p, std::size_t v, std::size_t i) const {
    return fmt::format("{}_v{}_in{}", stem(p), v, i);
  }
  std::string output(std::size_t p, std::size_t c, std::size_t v, std::size_t i) const {
    return fmt::format("{}_c{}_v{}_{}", stem(p), c, v, i);
  }

  // The first vectors under every configuration, then one configuration after the other; each
  // program begins with another one.
  bool is_run(std::size_t program, std::size_t configuration, std::size_t vector) const {
    return vector < options_.whole_vectors ||
           (program + vector) % configurations_.size() == configuration;
  }

  static Status check(const ChildResult& child, const char* what) {
    if (child.status == 0) return {};
    std::string printed;  // indented, as lines of a message are
    std::istringstream lines(child.printed);
    for (std::string line; std::getline(lines, line);) printed += "\n  " + line;
    return Error{ErrorCode::kInternal,
                 fmt::format("{} ended with status {}:{}", what, child.status, printed)};
  }

  Result<std::string> packages_folder() const {
    std::string folder = options_.onnxruntime;
    if (folder.empty()) {
      const char* const own = std::getenv("TESSERA_CACHE");
      const char* const cache = std::getenv("XDG_CACHE_HOME");
      const char* const home = std::getenv("HOME");
      folder = own != nullptr     ? std::string(own)
               : cache != nullptr ? std::string(cache) + "/tessera"
                                  : std::string(home == nullptr ? "" : home) + "/.cache/tessera";
      folder += "/onnxruntime-node-1.30.0";
    }
    std::error_code error;
    if (std::filesystem::exists(folder + "/node_modules/onnxruntime-node", error)) return folder;
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("there is no ONNX Runtime under '{}'; run scripts/fetch_onnxruntime.sh "
                    "of the source tree, or 'npm install {}' in a folder and name that "
                    "with --onnxruntime",
                    folder, kOnnxRuntimePackage)};
  }

  Status write_job(nlohmann::json job, const char* target, const char* ending) {
    job["programs"] = nlohmann::json::array();
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      const DerivedProgram& program = programs_[p];
      std::string file = program.file;
      if (file.empty()) {
        file = stem(p) + ending;
        const auto written = write_derived(target, *program.software, file);
        if (!written.ok()) {
          return Error{written.error().code,
                       fmt::format("{}: {}", program.name, written.error().message)};
        }
      }
      nlohmann::json entry = {{"name", program.name},
                              {"file", std::filesystem::absolute(file).string()},
                              {"stem", stem(p)},
                              {"inputs", ports(*program.software, program.software->inputs)},
                              {"outputs", ports(*program.software, program.software->outputs)},
                              {"vectors", nlohmann::json::array()}};
      for (std::size_t v = 0; v < program.vectors.size(); ++v) {
        nlohmann::json files = nlohmann::json::array();
        for (std::size_t i = 0; i < program.software->inputs.size(); ++i) {
          files.push_back(input(p, v, i));
        }
        entry["vectors"].push_back(std::move(files));
      }
      entry["configurations"] = nlohmann::json::array();
      for (std::size_t c = 0; c < configurations_.size(); ++c) {
        nlohmann::json vectors = nlohmann::json::array();
        for (std::size_t v = 0; v < program.vectors.size(); ++v) {
          if (is_run(p, c, v)) vectors.push_back(v);
        }
        entry["configurations"].push_back({{"level", configurations_[c].level},
                                           {"threads", configurations_[c].threads},
                                           {"vectors", std::move(vectors)}});
      }
      job["programs"].push_back(std::move(entry));
    }
    return write_text(folder_.path("job.json"), json_line(job));
  }

  static nlohmann::json ports(const concord::Software& software,
                              const std::vector<concord::Port>& list) {
    nlohmann::json result = nlohmann::json::array();
    for (const concord::Port& port : list) {
      const concord::Value& value = software.value(port.value);
      result.push_back(
          {{"name", port.name}, {"format", format_name(value.format)}, {"dims", value.dims}});
    }
    return result;
  }

  Status compile(const std::string& source) const {
    const char* const chosen = std::getenv("CXX");
    std::vector<std::string> compilers = {"c++", "g++", "clang++"};
    if (chosen != nullptr && *chosen != '\0') compilers = {chosen};
    for (const std::string& compiler : compilers) {
      const auto child =
          run_child({compiler, "-std=c++17", "-O1", source, "-o", folder_.path("derived")}, log());
      if (child.ok()) return check(*child, compiler.c_str());
    }
    return Error{ErrorCode::kUnavailable,
                 "there is no C++ compiler; install one (Debian: g++) or name it with CXX"};
  }

  // Inputs and outputs of all programs for vector v. Those that have fewer vectors repeat theirs.
  void add_files(std::size_t v, std::vector<std::string>& words) const {
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      const std::size_t own = v % programs_[p].vectors.size();
      for (std::size_t i = 0; i < programs_[p].software->inputs.size(); ++i) {
        words.push_back(input(p, own, i));
      }
    }
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      for (std::size_t i = 0; i < programs_[p].software->outputs.size(); ++i) {
        words.push_back(output(p, 0, v, i));
      }
    }
  }

  Result<std::vector<Tensor>> read_vector(std::size_t p, std::size_t c, std::size_t v) const {
    const concord::Software& software = *programs_[p].software;
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < software.outputs.size(); ++i) {
      const concord::Value& value = software.value(software.outputs[i].value);
      Tensor tensor = Tensor::zeros(value.format, value.dims);
      TESSERA_TRY(std::vector<std::byte> bytes, read_file(output(p, c, v, i)));
      if (bytes.size() != tensor.bytes.size()) {
        return Error{ErrorCode::kInternal,
                     fmt::format("{}: output '{}' has {} bytes, expected {}", programs_[p].name,
                                 software.outputs[i].name, bytes.size(), tensor.bytes.size())};
      }
      std::copy(bytes.begin(), bytes.end(), tensor.bytes.begin());
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  const std::span<const DerivedProgram> programs_;
  const DerivedRuntimeOptions& options_;
  const ScratchFolder& folder_;
  std::vector<Configuration> configurations_;
};

}  // namespace

const char* runtime_name(DerivedRuntime runtime) {
  switch (runtime) {
    case DerivedRuntime::kOnnxRuntime:
      return "onnxruntime";
    case DerivedRuntime::kPython:
      return "python";
    case DerivedRuntime::kCpp:
      return "c++";
  }
  return "";
}

Result<DerivedRuntime> runtime_from_name(const std::string& name) {
  for (const DerivedRuntime runtime :
       {DerivedRuntime::kOnnxRuntime, DerivedRuntime::kPython, DerivedRuntime::kCpp}) {
    if (name == runtime_name(runtime)) return runtime;
  }
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' runs no derived software; choose onnxruntime, python or c++", name)};
}

const char* runtime_target(DerivedRuntime runtime) {
  switch (runtime) {
    case DerivedRuntime::kOnnxRuntime:
      return "onnx";
    case DerivedRuntime::kPython:
      return "pytorch";
    case DerivedRuntime::kCpp:
      return "cpp";
  }
  return "";
}

Result<std::vector<std::vector<DerivedRun>>> run_derived(DerivedRuntime runtime,
                                                         std::span<const DerivedProgram> programs,
                                                         const DerivedRuntimeOptions& options) {
  TESSERA_TRY(ScratchFolder folder, ScratchFolder::make());
  Job job(programs, options, folder);
  TESSERA_RETURN_IF_ERROR(job.write_inputs());
  switch (runtime) {
    case DerivedRuntime::kOnnxRuntime:
      TESSERA_RETURN_IF_ERROR(job.run_onnxruntime());
      break;
    case DerivedRuntime::kPython:
      TESSERA_RETURN_IF_ERROR(job.run_python());
      break;
    case DerivedRuntime::kCpp:
      TESSERA_RETURN_IF_ERROR(job.run_cpp());
      break;
  }
  return job.read_outputs();
}

std::string derived_weights_file(const std::string& target, const std::string& file) {
  if (target != "pytorch") return "";
  return std::filesystem::path(file).replace_extension(".weights").string();
}

Result<std::size_t> write_derived(const std::string& target, const concord::Software& unrolled,
                                  const std::string& file) {
  const concord::Software software = concord::folded(unrolled);
  if (target == "onnx") {
    TESSERA_TRY(const std::vector<std::byte> bytes, concord::write_onnx(software));
    TESSERA_RETURN_IF_ERROR(write_file(file, bytes));
    return bytes.size();
  }
  if (target == "cpp") {
    TESSERA_TRY(const std::string text, concord::write_cpp(software));
    TESSERA_RETURN_IF_ERROR(write_text(file, text));
    return text.size();
  }
  TESSERA_RETURN_IF_ERROR(check_has_place_beside(file));
  const std::filesystem::path weights = derived_weights_file(target, file);
  TESSERA_TRY(const concord::PythonModule module,
              concord::write_pytorch(software, weights.filename().string()));
  OutputFiles files;
  TESSERA_RETURN_IF_ERROR(files.add(weights.string(), module.weights));
  TESSERA_RETURN_IF_ERROR(files.add(file, module.text));
  TESSERA_RETURN_IF_ERROR(files.commit());
  return module.text.size();
}

}  // namespace tessera::tools
