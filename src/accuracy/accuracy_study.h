// Where a compiled network loses accuracy, and what would help: the layers by the error they make and by how much they
// let errors grow; for the worst of them, and for all layers, what the outputs would be with wider formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accuracy/layer_errors.h"
#include "tessera/format_choice.h"

namespace tessera::accuracy {

// What a change would make of the outputs.
struct Remedy {
  std::string layer;   // empty: all layers
  std::string change;  // "bfp:11", "bfp:15", "values in f32", "f32"
  double cosine = 0;
};

struct AccuracyStudy {
  std::size_t cases = 0;
  double cosine = 0;  // of the output that has the smallest, against float32, over all cases
  std::vector<std::string>
      out_of_range;                // values beyond half of the vector format's range in float32
  std::vector<LayerError> layers;  // in the graph's order; of the first case
  std::vector<Remedy> of_all;      // for the whole network
  std::vector<Remedy> of_layers;   // for the layers with the largest own errors, largest first
};

struct StudyOptions {
  std::int64_t layers_tried = 12;
};

Result<AccuracyStudy> accuracy_study(const std::string& path, const LoadOptions& load,
                                     const FormatCases& cases, const StudyOptions& options = {});

}  // namespace tessera::accuracy
