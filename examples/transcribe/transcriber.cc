#include "transcriber.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "program.h"

namespace transcription {
namespace {

using tessera::Error;
using tessera::ErrorCode;
using tessera::Result;
using tessera::Tensor;

constexpr std::int64_t kBegin = 1, kEnd = 2;  // tokens
constexpr double kTokensPerSecondMax = 6;
// Two convolutions and a stride leave nothing of less.
constexpr double kSecondsMin = 0.1, kSecondsMax = 64;

tessera::Status check_length(const speech::Recording& recording) {
  if (recording.seconds() >= kSecondsMin && recording.seconds() <= kSecondsMax) return {};
  return Error{ErrorCode::kInvalidArgument,
               "recording '" + recording.path + "' has " + std::to_string(recording.seconds()) +
                   " s, allowed are 0.1 to 64; cut it where nobody speaks (the example speech "
                   "finds segments)"};
}

}  // namespace

Result<Transcriber> Transcriber::open(const std::string& folder,
                                      const tessera::DynamicOptions& networks,
                                      const tessera::SessionOptions& session) {
  TESSERA_TRY(tessera::DynamicNetwork encoder,
              tessera::DynamicNetwork::open(folder + "/encoder_model.onnx", networks));
  TESSERA_TRY(tessera::DynamicSession encoder_session,
              tessera::DynamicSession::open(encoder, session, /*sessions_max=*/1));
  TESSERA_TRY(
      generation::CachedDecoder decoder,
      generation::CachedDecoder::open(folder + "/decoder_model_merged.onnx", networks, session));
  return Transcriber(std::move(encoder), std::move(encoder_session), std::move(decoder));
}

Result<Tensor> Transcriber::encode(const speech::Recording& recording) {
  Tensor samples = Tensor::zeros(tessera::Format::kF32,
                                 {1, static_cast<std::int64_t>(recording.samples.size())});
  std::ranges::copy(recording.samples, samples.as<float>().begin());
  const std::vector<Tensor> inputs = {std::move(samples)};
  TESSERA_TRY(const tessera::Network network, encoder_network_.network_for(inputs));
  const auto begin = std::chrono::steady_clock::now();
  TESSERA_TRY(tessera::RunResult result, encoder_.run(inputs));
  encoder_costs_.add(
      result, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return std::move(result.outputs.front());
}

Result<Transcript> Transcriber::transcribe(const speech::Recording& recording) {
  TESSERA_RETURN_IF_ERROR(check_length(recording));
  TESSERA_TRY(const Tensor vectors, encode(recording));
  decoder_.forget();
  Transcript transcript;
  Tensor has_cache = Tensor::zeros(tessera::Format::kBool, {1});
  std::int64_t token = kBegin;
  const auto tokens_max = static_cast<std::int64_t>(recording.seconds() * kTokensPerSecondMax);
  while (std::ssize(transcript.tokens) < tokens_max) {
    TESSERA_TRY(const std::vector<float> logits,
                decoder_.step({{"input_ids", generation::integers_tensor({token})},
                               {"encoder_hidden_states", vectors},
                               {"use_cache_branch", has_cache}},
                              decoder_costs_));
    has_cache.as<std::uint8_t>()[0] = 1;
    token = generation::largest(logits);
    if (token == kEnd) {
      transcript.complete = true;
      break;
    }
    transcript.tokens.push_back(token);
  }
  return transcript;
}

}  // namespace transcription
