// transcribe RECORDING...: the words of recordings.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "program.h"
#include "tessera/visible_text.h"
#include "transcriber.h"
#include "vocabulary.h"

namespace {

using tessera::Status;

struct Arguments {
  std::vector<std::string> recordings;
  std::string model;
  generation::DeviceArguments device;
  bool json = false;
};

struct Line {
  speech::Recording recording;
  transcription::Transcript transcript;
  std::string text;
};

void print_text(const std::vector<Line>& lines, const transcription::Transcriber& transcriber) {
  for (const Line& line : lines) {
    std::printf("%s  %.3f s\n  %s%s\n\n", tessera::visible_text(line.recording.path).c_str(),
                line.recording.seconds(), tessera::visible_text(line.text).c_str(),
                line.transcript.complete ? "" : " ...");
  }
  print_costs("encoder", "recording", transcriber.encoder_costs());
  print_costs("decoder", "token", transcriber.decoder_costs());
  const tessera::DynamicCounters networks = transcriber.decoder_networks();
  std::printf("  networks: %lld compiled, %lld from the folder\n",
              static_cast<long long>(networks.compiled), static_cast<long long>(networks.loaded));
}

void print_json(const std::vector<Line>& lines, const transcription::Transcriber& transcriber) {
  nlohmann::ordered_json recordings = nlohmann::ordered_json::array();
  for (const Line& line : lines) {
    recordings.push_back({{"path", line.recording.path},
                          {"seconds", line.recording.seconds()},
                          {"tokens", line.transcript.tokens},
                          {"complete", line.transcript.complete},
                          {"text", line.text}});
  }
  const nlohmann::ordered_json all = {{"recordings", recordings},
                                      {"encoder", costs_json(transcriber.encoder_costs())},
                                      {"decoder", costs_json(transcriber.decoder_costs())}};
  std::printf("%s\n", tessera::visible_json(
                          all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
                          .c_str());
}

Status run(const Arguments& arguments) {
  TESSERA_TRY(const tessera::SessionOptions session, session_options(arguments.device));
  TESSERA_TRY(const transcription::Vocabulary vocabulary,
              transcription::Vocabulary::read(arguments.model + "/vocabulary.txt"));
  TESSERA_TRY(transcription::Transcriber transcriber,
              transcription::Transcriber::open(arguments.model, network_options(arguments.device),
                                               session));
  std::vector<Line> lines;
  for (const std::string& path : arguments.recordings) {
    TESSERA_TRY(speech::Recording recording, speech::read_wav(path));
    TESSERA_TRY(transcription::Transcript transcript, transcriber.transcribe(recording));
    std::string text = vocabulary.text_of(transcript.tokens);
    lines.push_back({std::move(recording), std::move(transcript), std::move(text)});
  }
  arguments.json ? print_json(lines, transcriber) : print_text(lines, transcriber);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"The words of recordings, on a neural processor.", "transcribe"};
  app.add_option("recordings", arguments.recordings,
                 ".wav files (16-bit PCM, one channel, 16000 samples a second), at most 64 s each")
      ->required();
  app.add_option("--model", arguments.model,
                 "folder of encoder, decoder and vocabulary, from "
                 "scripts/fetch_transcription_model.sh")
      ->required();
  add_arguments(app, arguments.device);
  app.add_flag("--json", arguments.json, "print one JSON object");
  app.footer(
      "Example:\n  transcribe speech.wav --model \"$(scripts/fetch_transcription_model.sh)\"");
  return generation::run_program(app, argc, argv, [&] { return run(arguments); });
}
