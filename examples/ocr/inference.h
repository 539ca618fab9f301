// One model behind one call: a picture-shaped f32 tensor in, an f32 tensor out.
//
// The pipeline knows only this interface, so the same pipeline runs on any device, and the tests
// run it on another runtime to compare the lines.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace ocr {

class Inference {
 public:
  virtual ~Inference() = default;
  // `input` is f32 [1, 3, H, W].
  virtual tessera::Result<tessera::Tensor> run(const tessera::Tensor& input) = 0;
};

// What the runs of one model cost together.
struct ModelUse {
  std::string name;
  std::int64_t runs = 0;
  std::int64_t cycles = 0;
  std::int64_t clock_hertz = 0;
  std::vector<tessera::EngineUse> engines;  // summed
  tessera::Placement placement;
};

struct TesseraOptions {
  std::string arch = "tessera128";
  tessera::DeviceKind device = tessera::DeviceKind::kSim;
  int threads = 0;
  int cores = 1;  // sim: that run each model together
  bool trace = false;
  tessera::ProgressCallback progress;
};

// A model on a Tessera device. It is compiled once for each input shape and kept.
class TesseraInference : public Inference {
 public:
  TesseraInference(std::string name, std::string path, TesseraOptions options);
  tessera::Result<tessera::Tensor> run(const tessera::Tensor& input) override;
  // Compiles for this shape, so that the first run does not.
  tessera::Status prepare(const tessera::Shape& dims);

  const ModelUse& use() const { return use_; }
  // The last run, for reports; null before the first.
  const tessera::RunResult* last_run() const { return last_run_.get(); }
  const tessera::Network* last_network() const { return last_network_; }

 private:
  struct Compiled {
    tessera::Network network;
    tessera::Session session;
  };
  tessera::Result<Compiled*> compiled_for(const tessera::Shape& dims);
  void add_use(const tessera::RunResult& result, const tessera::Network& network);

  const std::string name_, path_;
  const TesseraOptions options_;
  std::map<tessera::Shape, Compiled> compiled_;
  std::string input_name_;
  ModelUse use_;
  std::unique_ptr<tessera::RunResult> last_run_;
  const tessera::Network* last_network_ = nullptr;
};

}  // namespace ocr
