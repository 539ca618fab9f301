// A model repository of small models in a folder of its own, for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "model/testing/model_builder.h"
#include "serve/service.h"

namespace tessera::serve::testing {

// y = max(x * scale, 0) for x of 4 numbers; the rows may be open.
inline std::string scaled(float scale, bool has_open_rows = false) {
  using model::testing::ModelBuilder;
  Tensor factor = Tensor::zeros(Format::kF32, {1});
  factor.as<float>()[0] = scale;
  ModelBuilder builder(13);
  if (has_open_rows) {
    builder.open_input("x", Format::kF32, {"rows", "4"});
  } else {
    builder.input("x", Format::kF32, {1, 4});
  }
  return builder.initializer("f", factor)
      .node("Mul", {"x", "f"}, {"m"})
      .node("Relu", {"m"}, {"y"})
      .output("y")
      .proto()
      .SerializeAsString();
}

class ModelFolder {
 public:
  explicit ModelFolder(const std::string& name) : path_(::testing::TempDir() + name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& file, const std::string& bytes) const {
    const std::string path = path_ + "/" + file;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Waits until all models are loaded or have failed to.
  std::unique_ptr<Service> serve(ServiceOptions options = {}) const {
    options.repository = path_;
    auto service = Service::open(std::move(options)).value();
    while (!service->loaded().done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return service;
  }

 private:
  const std::string path_;
};

}  // namespace tessera::serve::testing
