// A model whose states grow by a row a run, and its networks: one for each capacity of rows. What growing_session.cc and
// growing_pipeline.cc have in common; it has no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "model/grow_states.h"
#include "model/model.h"
#include "tessera/growing_session.h"
#include "tessera/network.h"
#include "tessera/tensor.h"

namespace tessera::runtime {

// Where a network's input or output comes from or goes to.
struct GrowingPlace {
  enum class Kind : std::uint8_t { kCaller, kState, kNewRow } kind = Kind::kCaller;
  std::size_t index = 0;  // of GrowingModel::inputs(), or of the states
};

// Immutable once opened; for several threads at once.
class GrowingModel {
 public:
  // The error names the option that is wrong, or the state that the model does not have.
  static Result<GrowingModel> open(const std::string& path, const GrowingOptions& options);

  const GrowingOptions& options() const { return options_; }
  const ChipConfig& chip() const { return chip_; }
  const std::vector<DeclaredShape>& inputs() const { return inputs_; }  // without states
  const std::vector<std::string>& outputs() const { return outputs_; }  // likewise
  const std::vector<model::StateNames>& states() const { return states_; }
  // Rows that the network sees beside which a state has `rows`; 0: there is no room for one more.
  std::int64_t capacity_for(std::int64_t rows) const;

  // `given` are checked inputs.
  Result<Network> compile(std::int64_t capacity, const std::vector<Tensor>& given) const;
  // Number and formats.
  Status check_given(const std::vector<Tensor>& given) const;
  // Of the network of that capacity.
  Status check_shapes(const Network& network, std::int64_t capacity,
                      const std::vector<Tensor>& given) const;
  GrowingPlace input_place(const std::string& name) const;
  GrowingPlace output_place(const std::string& name) const;
  // What a run appends to the state. The error says why it is no row.
  Result<TensorDescription> row_of(const Network& network, std::size_t state) const;

 private:
  GrowingModel() = default;
  std::string path_;
  GrowingOptions options_;
  ChipConfig chip_;
  model::Model model_;
  std::vector<DeclaredShape> inputs_;
  std::vector<std::string> outputs_;
  std::vector<model::StateNames> states_;
};

// That of the row, of as many as the network has.
Tensor new_row_input(std::int64_t capacity, std::int64_t row);

}  // namespace tessera::runtime
