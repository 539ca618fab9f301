#include "cached_decoder.h"

#include <chrono>
#include <utility>

namespace generation {
namespace {

using tessera::Error;
using tessera::ErrorCode;
using tessera::Result;
using tessera::Tensor;

const std::string kPast = "past_key_values.", kPresent = "present.", kLogits = "logits";

// One sequence, no row yet.
Tensor empty_cache(const tessera::DeclaredShape& declared) {
  tessera::Shape dims = declared.dims;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < 0) dims[axis] = axis == 0 ? 1 : 0;
  }
  return Tensor::zeros(declared.format, dims);
}

std::vector<float> last_row(const Tensor& logits) {
  const auto values = logits.as<float>();
  const auto row = values.last(static_cast<std::size_t>(logits.dims.back()));
  return {row.begin(), row.end()};
}

}  // namespace

Result<CachedDecoder> CachedDecoder::open(const std::string& path,
                                          const tessera::DynamicOptions& network,
                                          const tessera::SessionOptions& session) {
  TESSERA_TRY(tessera::DynamicNetwork opened, tessera::DynamicNetwork::open(path, network));
  TESSERA_TRY(tessera::DynamicSession sessions,
              tessera::DynamicSession::open(opened, session, /*sessions_max=*/1));
  CachedDecoder decoder(std::move(opened), std::move(sessions));
  decoder.forget();
  if (decoder.caches_.empty()) {
    return Error{ErrorCode::kInvalidModel, "model '" + path + "' has no input '" + kPast +
                                               "...'; needed: a decoder with caches"};
  }
  return decoder;
}

void CachedDecoder::forget() {
  for (const tessera::DeclaredShape& input : network_.inputs()) {
    if (input.name.starts_with(kPast)) caches_[input.name] = empty_cache(input);
  }
}

Result<std::vector<float>> CachedDecoder::step(const std::map<std::string, Tensor>& inputs,
                                               Costs& costs) {
  std::vector<Tensor> given;
  for (const tessera::DeclaredShape& input : network_.inputs()) {
    const auto found = inputs.find(input.name);
    if (found != inputs.end()) {
      given.push_back(found->second);
    } else if (const auto cache = caches_.find(input.name); cache != caches_.end()) {
      given.push_back(cache->second);
    } else {
      return Error{ErrorCode::kInvalidModel,
                   "the decoder has an input '" + input.name + "' that this program does not know"};
    }
  }
  // So that compiling is not in the time of the run.
  TESSERA_TRY(const tessera::Network network, network_.network_for(given));
  const auto begin = std::chrono::steady_clock::now();
  TESSERA_TRY(tessera::RunResult result, session_.run(given));
  costs.add(result,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  std::vector<float> logits;
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const std::string& name = network.outputs()[i].name;
    if (name == kLogits) logits = last_row(result.outputs[i]);
    if (!name.starts_with(kPresent) || result.outputs[i].bytes.empty()) continue;
    caches_[kPast + name.substr(kPresent.size())] = std::move(result.outputs[i]);
  }
  if (!logits.empty()) return logits;
  return Error{ErrorCode::kInvalidModel, "the decoder has no output '" + kLogits + "'"};
}

}  // namespace generation
