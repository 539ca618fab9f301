#include "growing_decoder.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "program.h"
#include "tessera/network.h"

namespace generation {
namespace {

using tessera::Error;
using tessera::ErrorCode;
using tessera::Result;
using tessera::Tensor;

const std::string kPast = "past_key_values.", kPresent = "present.", kLogits = "logits";

}  // namespace

Result<GrowingDecoder> GrowingDecoder::open(const std::string& path, const std::string& arch,
                                            std::int64_t tokens_max,
                                            const tessera::SessionOptions& session) {
  tessera::GrowingOptions growing;
  growing.load.arch = arch;
  growing.rows_max = tokens_max;
  TESSERA_TRY(const tessera::DeclaredShapes declared, tessera::Network::declared_shapes(path));
  for (const tessera::DeclaredShape& input : declared.inputs) {
    if (!input.name.starts_with(kPast)) continue;
    growing.states.push_back({input.name, kPresent + input.name.substr(kPast.size())});
  }
  TESSERA_TRY(tessera::GrowingSession opened,
              tessera::GrowingSession::open(path, growing, session));
  return GrowingDecoder(std::move(opened));
}

Result<Tensor> GrowingDecoder::input(const std::string& name, std::int64_t token) const {
  if (name == "input_ids") return integers_tensor({token});
  if (name == "position_ids") return integers_tensor({session_.rows()});
  if (name == "attention_mask") {
    // One more than the rows: the model counts the new token apart. Its row is behind those that are there.
    std::vector<std::int64_t> seen(static_cast<std::size_t>(session_.capacity() + 1), 0);
    std::fill_n(seen.begin(), session_.rows() + 1, 1);
    return integers_tensor(seen);
  }
  return Error{ErrorCode::kInvalidModel,
               "the decoder has an input '" + name + "' that this program does not know"};
}

Result<std::vector<float>> GrowingDecoder::step(std::int64_t token, Costs& costs) {
  std::vector<Tensor> given;
  for (const tessera::DeclaredShape& declared : session_.inputs()) {
    TESSERA_TRY(given.emplace_back(), input(declared.name, token));
  }
  const std::int64_t compiled = session_.networks_compiled();
  const auto begin = std::chrono::steady_clock::now();
  TESSERA_TRY(const tessera::RunResult result, session_.run(given));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // A run that had to compile counts with its cycles alone.
  costs.add(result, session_.networks_compiled() == compiled ? seconds : 0);
  if (result.outputs.empty()) {
    return Error{ErrorCode::kInvalidModel, "the decoder has no output '" + kLogits + "'"};
  }
  const auto values = result.outputs.front().as<float>();
  const auto row = values.last(static_cast<std::size_t>(result.outputs.front().dims.back()));
  return std::vector<float>(row.begin(), row.end());
}

}  // namespace generation
