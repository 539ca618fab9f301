#include "answerer.h"

#include <utility>

#include "program.h"

namespace conversation {
namespace {

using tessera::Result;

struct Marks {
  std::int64_t begin = 0, end = 0;
};

Result<Marks> marks_of(const BytePairs& vocabulary) {
  Marks marks;
  TESSERA_TRY(marks.begin, vocabulary.special("<|im_start|>"));
  TESSERA_TRY(marks.end, vocabulary.special("<|im_end|>"));
  return marks;
}

// As the model was trained: system, user, and the beginning of what the assistant says.
std::vector<std::int64_t> conversation_tokens(const BytePairs& vocabulary, const Marks& marks,
                                              const std::string& prompt) {
  std::vector<std::int64_t> tokens;
  const auto add = [&](const std::string& text) {
    const std::vector<std::int64_t> more = vocabulary.tokens_of(text);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  const auto say = [&](const std::string& text) {
    tokens.push_back(marks.begin);
    add(text);
    tokens.push_back(marks.end);
    add("\n");
  };
  say("system\nYou are a helpful assistant");
  say("user\n" + prompt);
  tokens.push_back(marks.begin);
  add("assistant\n");
  return tokens;
}

}  // namespace

Result<Answerer> Answerer::open(const std::string& folder, const std::string& arch,
                                std::int64_t tokens_max, const tessera::SessionOptions& session) {
  TESSERA_TRY(BytePairs vocabulary, BytePairs::read(folder + "/tokenizer.json"));
  TESSERA_TRY(generation::GrowingDecoder decoder,
              generation::GrowingDecoder::open(folder + "/model_quantized.onnx", arch, tokens_max,
                                               session));
  return Answerer(std::move(vocabulary), std::move(decoder));
}

Result<std::int64_t> Answerer::next(std::int64_t token, generation::Costs& costs) {
  TESSERA_TRY(const std::vector<float> logits, decoder_.step(token, costs));
  return generation::largest(logits);
}

Result<Answer> Answerer::answer(const std::string& prompt, std::int64_t tokens_max,
                                const std::function<void(std::int64_t)>& written) {
  TESSERA_TRY(const Marks marks, marks_of(vocabulary_));
  TESSERA_RETURN_IF_ERROR(decoder_.forget());
  Answer answer;
  answer.prompt = conversation_tokens(vocabulary_, marks, prompt);
  std::int64_t token = 0;
  for (const std::int64_t given : answer.prompt) {
    TESSERA_TRY(token, next(given, prompt_costs_));
  }
  while (token != marks.end && std::ssize(answer.tokens) < tokens_max) {
    answer.tokens.push_back(token);
    if (written) written(token);
    TESSERA_TRY(token, next(token, token_costs_));
  }
  answer.complete = token == marks.end;
  return answer;
}

}  // namespace conversation
