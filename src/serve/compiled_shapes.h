// A model on its device, compiled for as many shapes of its inputs as are asked for, up to a number: of those that
// nobody has asked for longest one goes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/infer_request.h"
#include "serve/model_repository.h"
#include "tessera/network.h"
#include "tessera/runtime.h"

namespace tessera::serve {

// The model for one list of shapes.
struct CompiledModel {
  CompiledModel(Network of, Pipeline its);
  const Network network;
  Pipeline pipeline;
  Stream stream;
  const std::vector<Shape> input_shapes;
  // Of a run on sim, known before the first: 0 elsewhere.
  std::int64_t cycles = 0;
  std::vector<std::int64_t> core_busy = {};  // of them those in which each core's array works
  std::chrono::nanoseconds modelled{0};      // these cycles, at the pace
  std::atomic<std::int64_t> measured_ns{0};  // a moving mean of runs; 0: none yet

  // What a run is expected to take: 0 where nothing is known yet.
  std::chrono::nanoseconds predicted() const;
  void note(std::chrono::nanoseconds run);
};

// For several threads at once, but compile(), which is for one at a time.
class CompiledShapes {
 public:
  // Compiles the shapes that config.json says, or the model's defaults; with batching also those of batches, and
  // checks that a batch gives each request the bits that it gets alone. The error says why it does not.
  static Result<std::unique_ptr<CompiledShapes>> open(const std::string& path,
                                                      const ModelConfig& config);

  const ModelForm& form() const { return form_; }
  bool is_open() const { return is_open_; }  // requests may have shapes of their own
  const std::shared_ptr<CompiledModel>& first() const { return first_; }  // of the default shapes
  std::shared_ptr<CompiledModel> find(const std::vector<Shape>& shapes);  // null: not compiled
  Result<std::shared_ptr<CompiledModel>> compile(const std::vector<Shape>& shapes);
  int size() const;

 private:
  CompiledShapes(std::string path, const ModelConfig& config, Runtime runtime)
      : path_(std::move(path)), config_(config), runtime_(std::move(runtime)) {}
  Status set_form();
  Status compile_batches();
  Result<Network> load(const std::vector<Shape>& shapes) const;

  const std::string path_;
  const ModelConfig config_;
  Runtime runtime_;
  ModelForm form_;
  bool is_open_ = false;
  std::vector<std::string> input_names_;
  std::shared_ptr<CompiledModel> first_;
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<CompiledModel>>
      compiled_;  // asked for last: in front. Shared with runs
};

// The number of rows for which a batch of `rows` is compiled: the next power of two, or the largest.
std::int64_t batch_size(std::int64_t rows, std::int64_t rows_max);

}  // namespace tessera::serve
