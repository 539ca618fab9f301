// Number formats by accuracy: what the values of a model need, found on inputs that the application gives.
//
//   formats_for_ranges   values that leave the vector format's range become binary32
//   choose_formats       beside that, of every product the mantissa with which the outputs reach a bound:
//                        more where they miss it, less where bits are to spare
//
// Both compute on the host; the result goes into LoadOptions::layer_formats. Of a model that runs in parts
// (tessera/dynamic_network.h) they look at the nodes before the first one that data decides: outputs are then the
// values that those behind it read, and those behind it keep the architecture's formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/network.h"
#include "tessera/result.h"
#include "tessera/tensor.h"

namespace tessera {

// The inputs on which formats are chosen.
struct FormatCases {
  std::vector<std::vector<Tensor>> inputs;  // of each case, in the order of the network's inputs
  int threads = 0;                          // 0: all cores
};

// Of the ONNX model at `path` as `load` compiles it. A value counts as out of range from half the format's largest
// number on, since other inputs than these will come. kInvalidArgument where an input does not fit; kUnsupported for
// a package or program.
Result<LayerFormats> formats_for_ranges(const std::string& path, const LoadOptions& load,
                                        const FormatCases& cases);

// What was chosen, and what it comes to.
struct FormatChoice {
  LayerFormats formats;
  double cosine = 0;         // of the output that has the smallest, against float32, over all cases
  double cosine_before = 0;  // in the architecture's formats
  std::int64_t weight_bytes = 0, weight_bytes_before = 0;  // constant operands of products
  std::int64_t runs = 0;                                   // that were made to find it
};

// The cheapest formats found that reach `cosine_min`, 0 to below 1, on all cases: fewest bytes of weights, taken layer by
// layer in the order of bytes against loss. kUnavailable where the bound is out of reach, with the best that was found.
Result<FormatChoice> choose_formats(const std::string& path, const LoadOptions& load,
                                    const FormatCases& cases, double cosine_min);

}  // namespace tessera
