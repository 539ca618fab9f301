// chat PROMPT: what a small language model answers.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "answerer.h"
#include "program.h"
#include "tessera/visible_text.h"

namespace {

using tessera::Status;

constexpr std::int64_t kTokensMax = 4096;  // of prompt and answer together

struct Arguments {
  std::string prompt, model;
  std::int64_t tokens_max = 64;
  generation::DeviceArguments device;
  bool json = false;
};

void print_json(const conversation::Answer& answer, const conversation::Answerer& answerer) {
  const nlohmann::ordered_json all = {{"prompt_tokens", answer.prompt},
                                      {"tokens", answer.tokens},
                                      {"complete", answer.complete},
                                      {"text", answerer.vocabulary().text_of(answer.tokens)},
                                      {"prompt", costs_json(answerer.prompt_costs())},
                                      {"token", costs_json(answerer.token_costs())}};
  std::printf("%s\n", tessera::visible_json(
                          all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
                          .c_str());
}

void print_text(const conversation::Answer& answer, const conversation::Answerer& answerer) {
  std::printf("%s%s\n\n",
              tessera::visible_text(answerer.vocabulary().text_of(answer.tokens),
                                    tessera::LineBreaks::kKept)
                  .c_str(),
              answer.complete ? "" : " ...");
  print_costs("prompt", "token", answerer.prompt_costs());
  print_costs("answer", "token", answerer.token_costs());
  std::printf("  networks compiled: %lld\n", static_cast<long long>(answerer.networks_compiled()));
}

Status run(const Arguments& arguments) {
  TESSERA_TRY(const tessera::SessionOptions session, session_options(arguments.device));
  TESSERA_TRY(
      conversation::Answerer answerer,
      conversation::Answerer::open(arguments.model, arguments.device.arch, kTokensMax, session));
  TESSERA_TRY(const conversation::Answer answer,
              answerer.answer(arguments.prompt, arguments.tokens_max, {}));
  arguments.json ? print_json(answer, answerer) : print_text(answer, answerer);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"What a small language model answers, on a neural processor.", "chat"};
  app.add_option("prompt", arguments.prompt, "what is asked, in UTF-8")->required();
  app.add_option("--model", arguments.model,
                 "folder of model and vocabulary, from scripts/fetch_chat_model.sh")
      ->required();
  app.add_option("--tokens", arguments.tokens_max, "at most, of the answer")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  add_arguments(app, arguments.device);
  app.add_flag("--json", arguments.json, "print one JSON object");
  app.footer(
      "Example:\n  chat \"What is the capital of France?\" --model "
      "\"$(scripts/fetch_chat_model.sh)\"");
  return generation::run_program(app, argc, argv, [&] { return run(arguments); });
}
