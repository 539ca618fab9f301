// A folder of models as inference servers know it:
//
//   REPOSITORY/MODEL/VERSION/model.onnx     or model.tpkg, model.tprog; VERSION is a number from 1
//   REPOSITORY/MODEL/config.json            how it is loaded; may be absent
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tessera/device_kind.h"
#include "tessera/tensor.h"

namespace tessera::serve {

// config.json. Every key may be absent; one that is not known is an error.
struct ModelConfig {
  DeviceKind device = DeviceKind::kHost;  // "device": "host", "sim", "ref"; "cluster": below
  // Not empty: processors of this cluster, "cluster:HOST:PORT?...", as many as `instances`. Only as a default, which
  // another "device" leaves.
  std::string cluster = {};
  std::string arch = "tessera128";  // "arch": a profile, or with "+FORMAT" behind it
  int instances = 1;                // "instances": runs side by side, 1 to 64
  int threads = 0;                  // "threads": of host, of all instances; 0: all cores
  int cores = 1, cards = 1;  // "cores", "cards": of sim, for each run; "cores" of a cluster, too
  std::map<std::string, Shape> shapes = {};  // "shapes": {"x": [1, 3, 224, 224]}: open dimensions
  std::size_t queue = 256;                   // "queue": requests at once; more are refused
  std::chrono::microseconds timeout{0};      // "timeout_us": of requests that name none; 0: none
  double pace = 0;                           // "pace": of sim, as DeviceOptions has it
  int shapes_max = 8;  // "shapes_max": lists of shapes that are compiled at once, 1 to 256
  // "batching": {"max_batch": 16, "delay_us": 500}: requests that are put together, by the first dimension of all
  // inputs. 1: none are.
  std::int64_t batch_max = 1;
  std::chrono::microseconds batch_delay{0};
};

// `text` is foreign. The error names the key, what was found and what is allowed.
Result<ModelConfig> parse_model_config(const std::string& text, const ModelConfig& defaults);

struct ModelFile {
  std::int64_t version = 1;
  std::string path;  // of the model, package or program
};

// A folder of a model that looks like a version and is none.
struct LeftOut {
  std::string folder, reason;
};

// One of the repository's models.
struct FoundModel {
  std::string name;
  std::vector<ModelFile> versions;  // ascending; not empty
  ModelConfig config;
  std::vector<LeftOut> left_out = {};
};

// The names of its folders, in order; those that begin with a dot are no models.
Result<std::vector<std::string>> model_names(const std::string& repository);
// Whether the model has a folder. The error says why the name is none, or why that cannot be told.
Result<bool> has_model(const std::string& repository, const std::string& name);
// Reads config.json and finds the versions. A name that leads out of the repository is refused.
Result<FoundModel> find_model(const std::string& repository, const std::string& name,
                              const ModelConfig& defaults);

}  // namespace tessera::serve
