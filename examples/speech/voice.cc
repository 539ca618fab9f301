#include "voice.h"

#include <algorithm>
#include <utility>

namespace speech {
namespace {

const tessera::Shape kStateDims = {2, 1, 128};

tessera::Error other_model(const std::string& path, const std::string& what) {
  return {tessera::ErrorCode::kInvalidModel,
          "model '" + path + "' " + what +
              "; needed: silero_vad, version 5 or 6 (scripts/fetch_vad_model.sh)"};
}

}  // namespace

tessera::Result<tessera::Network> load_voice_network(const std::string& path,
                                                     const std::string& arch) {
  tessera::Tensor rate = tessera::Tensor::zeros(tessera::Format::kI64, {});
  rate.as<std::int64_t>()[0] = kSamplesPerSecond;
  tessera::LoadOptions options;
  options.arch = arch;
  options.shapes = {{"input", {1, kContext + kChunk}}, {"state", kStateDims}};
  options.constants = {{"sr", rate}};  // the model has a branch for each rate
  auto network = tessera::Network::load(path, options);
  if (!network.ok()) return network.error();
  const auto& inputs = network->inputs();
  const auto& outputs = network->outputs();
  if (inputs.size() != 2 || inputs[0].name != "input" || inputs[1].name != "state") {
    return other_model(path, "has no inputs 'input' and 'state'");
  }
  if (outputs.size() != 2 || outputs[0].dims != tessera::Shape{1, 1} ||
      outputs[1].dims != kStateDims || outputs[0].format != tessera::Format::kF32) {
    return other_model(path, "does not return one probability and a state");
  }
  return network;
}

Voice::Voice(Recording what)
    : recording(std::move(what)), state(tessera::Tensor::zeros(tessera::Format::kF32, kStateDims)) {
  probabilities.reserve(chunks());
}

std::size_t Voice::chunks() const {
  return (recording.samples.size() + kChunk - 1) / static_cast<std::size_t>(kChunk);
}

tessera::Tensor window_of(const Voice& voice, std::size_t chunk) {
  tessera::Tensor window = tessera::Tensor::zeros(tessera::Format::kF32, {1, kContext + kChunk});
  const std::vector<float>& samples = voice.recording.samples;
  // Zeros before the recording and behind it.
  const auto begin = static_cast<std::int64_t>(chunk) * kChunk - kContext;
  const std::int64_t first = std::max<std::int64_t>(begin, 0);
  const std::int64_t last =
      std::min(begin + kContext + kChunk, static_cast<std::int64_t>(samples.size()));
  std::copy(samples.begin() + first, samples.begin() + last,
            window.as<float>().begin() + (first - begin));
  return window;
}

std::vector<tessera::Tensor> next_inputs(const Voice& voice) {
  return {window_of(voice, voice.probabilities.size()), voice.state};
}

tessera::Status take_outputs(Voice& voice, std::vector<tessera::Tensor> outputs) {
  if (outputs.size() != 2 || outputs[0].as<float>().size() != 1) {
    return tessera::Error{tessera::ErrorCode::kInvalidModel,
                          "the voice detector returned no probability and state"};
  }
  voice.probabilities.push_back(outputs[0].as<float>()[0]);
  voice.state = std::move(outputs[1]);
  return {};
}

std::vector<Segment> segments_of(const Voice& voice, const SegmentOptions& options) {
  return find_segments(voice.probabilities, kChunkSeconds, voice.recording.seconds(), options);
}

}  // namespace speech
