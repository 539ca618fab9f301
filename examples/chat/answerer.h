// A language model that answers: a run a token, of the prompt and then of what it writes, each the likeliest one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "byte_pairs.h"
#include "growing_decoder.h"

namespace conversation {

struct Answer {
  std::vector<std::int64_t> prompt, tokens;  // as the model got it; what it wrote, without the end
  bool complete = false;                     // false: `tokens_max` came before the end
};

class Answerer {
 public:
  // `tokens_max` of prompt and answer together. `folder` holds model_quantized.onnx and tokenizer.json (scripts/fetch_chat_model.sh).
  static tessera::Result<Answerer> open(const std::string& folder, const std::string& arch,
                                        std::int64_t tokens_max,
                                        const tessera::SessionOptions& session);
  // `prompt` in UTF-8. `written` gets each token when it is there.
  tessera::Result<Answer> answer(const std::string& prompt, std::int64_t tokens_max,
                                 const std::function<void(std::int64_t)>& written);

  const BytePairs& vocabulary() const { return vocabulary_; }
  const generation::Costs& prompt_costs() const { return prompt_costs_; }
  const generation::Costs& token_costs() const { return token_costs_; }
  std::int64_t networks_compiled() const { return decoder_.networks_compiled(); }

 private:
  Answerer(BytePairs vocabulary, generation::GrowingDecoder decoder)
      : vocabulary_(std::move(vocabulary)), decoder_(std::move(decoder)) {}
  // The likeliest token behind `token` and those before it.
  tessera::Result<std::int64_t> next(std::int64_t token, generation::Costs& costs);

  BytePairs vocabulary_;
  generation::GrowingDecoder decoder_;
  generation::Costs prompt_costs_, token_costs_;
};

}  // namespace conversation
