// Speech into tokens: an encoder makes vectors of the sound, a decoder writes one token after the other,
// each the likeliest one.
//
//   samples ─► [ encoder ] ─► vectors ─┐
//              token ─► [ decoder ] ◄──┘ ─► logits ─► the largest ─► token ...   until the end
//                         ▲    │
//                         └────┘ keys and values
#pragma once

#include <cstdint>
#include <vector>

#include "cached_decoder.h"
#include "tessera/dynamic_network.h"
#include "wav.h"

namespace transcription {

struct Transcript {
  std::vector<std::int64_t> tokens;  // without the ones that begin and end it
  bool complete = false;             // false: `tokens_max` came before the end
};

class Transcriber {
 public:
  // `folder` holds encoder_model.onnx and decoder_model_merged.onnx (scripts/fetch_transcription_model.sh).
  static tessera::Result<Transcriber> open(const std::string& folder,
                                           const tessera::DynamicOptions& networks,
                                           const tessera::SessionOptions& session);
  // At most six tokens a second of sound, which is more than anybody says. Each recording by itself.
  tessera::Result<Transcript> transcribe(const speech::Recording& recording);

  const generation::Costs& encoder_costs() const { return encoder_costs_; }
  const generation::Costs& decoder_costs() const { return decoder_costs_; }
  tessera::DynamicCounters decoder_networks() const { return decoder_.counters(); }

 private:
  Transcriber(tessera::DynamicNetwork network, tessera::DynamicSession encoder,
              generation::CachedDecoder decoder)
      : encoder_network_(std::move(network)),
        encoder_(std::move(encoder)),
        decoder_(std::move(decoder)) {}
  tessera::Result<tessera::Tensor> encode(const speech::Recording& recording);

  tessera::DynamicNetwork encoder_network_;
  tessera::DynamicSession encoder_;
  generation::CachedDecoder decoder_;
  generation::Costs encoder_costs_, decoder_costs_;
};

}  // namespace transcription
