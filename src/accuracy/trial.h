// One model in one choice of formats, run on the host: what the searches of this folder try.
//
//   Trials::open(path, load, cases)     the model, and its outputs in float32
//   graph(formats)                      as it is compiled with them
//   cosine(graph)                       of the output that has the smallest, over all cases
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "graph/graph.h"
#include "model/model.h"
#include "tessera/format_choice.h"
#include "tessera/network.h"

namespace tessera::accuracy {

class Trials {
 public:
  // Of a model that runs in parts: an error, or its first part (network/first_part.h).
  enum class Extent : std::uint8_t { kWhole, kFirstPart };

  // kUnsupported for a package or program; kInvalidArgument where an input does not fit the model.
  static Result<Trials> open(const std::string& path, const LoadOptions& load,
                             const FormatCases& cases, Extent extent = Extent::kWhole);

  Result<std::shared_ptr<const graph::Graph>> graph(const LayerFormats& formats) const;
  Result<double> cosine(std::shared_ptr<const graph::Graph> graph);

  const graph::Graph& float32() const { return *float32_; }
  std::shared_ptr<const graph::Graph> float32_graph() const { return float32_; }
  const model::Model& model() const { return *model_; }
  const ChipConfig& chip() const { return chip_; }
  // The same with float32 vectors and products.
  const ChipConfig& float32_chip() const { return float32_chip_; }
  const LoadOptions& load() const { return load_; }
  const FormatCases& cases() const { return *cases_; }
  std::int64_t runs() const { return runs_; }

 private:
  Trials() = default;

  LoadOptions load_;
  ChipConfig chip_, float32_chip_;
  const FormatCases* cases_ = nullptr;
  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<const graph::Graph> float32_;
  std::vector<std::vector<Tensor>> expected_;
  std::int64_t runs_ = 0;
};

}  // namespace tessera::accuracy
