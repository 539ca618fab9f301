// speech RECORDING...: the speech segments of recordings, all recordings at once.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "recordings.h"
#include "tessera/visible_text.h"

namespace {

using tessera::Status;

struct Arguments {
  std::vector<std::string> paths;
  std::string model;
  streaming::Arguments devices;
  speech::SegmentOptions segments;
  bool plain = false, json = false;
};

// The .wav files of folders, and the files named.
tessera::Result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.path().extension() == ".wav") files.push_back(entry.path().string());
    }
    if (files.size() == before) {
      return tessera::Error{tessera::ErrorCode::kInvalidArgument,
                            "folder '" + path + "': no .wav file in it"};
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

double total_seconds(const speech::Detection& detection) {
  double sum = 0;
  for (const auto& result : detection.recordings) sum += result.voice->recording.seconds();
  return sum;
}

void print_text(const Arguments& arguments, const speech::Detection& detection) {
  for (const auto& result : detection.recordings) {
    const speech::Voice& voice = *result.voice;
    std::printf("%s  %.3f s\n", tessera::visible_text(voice.recording.path).c_str(),
                voice.recording.seconds());
    if (!result.error.empty()) {
      std::printf("  %s\n", tessera::visible_text(result.error).c_str());
      continue;
    }
    for (const speech::Segment& segment : segments_of(voice, arguments.segments)) {
      std::printf("  %8.3f to %8.3f\n", segment.begin, segment.end);
    }
  }
  const double sound = total_seconds(detection);
  std::printf("\n%zu recordings, %.1f s of sound in %.3f s: %.1f times as fast as it sounds\n",
              detection.recordings.size(), sound, detection.use.seconds,
              sound / detection.use.seconds);
  if (!detection.use.devices.empty()) streaming::print_use(detection.use);
}

void print_json(const Arguments& arguments, const speech::Detection& detection) {
  nlohmann::ordered_json recordings = nlohmann::ordered_json::array();
  for (const auto& result : detection.recordings) {
    const speech::Voice& voice = *result.voice;
    nlohmann::ordered_json segments = nlohmann::ordered_json::array();
    if (result.error.empty()) {
      for (const speech::Segment& segment : segments_of(voice, arguments.segments)) {
        segments.push_back({{"begin", segment.begin}, {"end", segment.end}});
      }
    }
    recordings.push_back({{"path", voice.recording.path},
                          {"seconds", voice.recording.seconds()},
                          {"probabilities", voice.probabilities},
                          {"segments", segments},
                          {"error", result.error}});
  }
  const double sound = total_seconds(detection);
  const nlohmann::ordered_json all = {{"recordings", recordings},
                                      {"sound_seconds", sound},
                                      {"times_real_time", sound / detection.use.seconds},
                                      {"use", streaming::use_json(detection.use)}};
  std::printf("%s\n", streaming::json_text(all).c_str());
}

Status run(const Arguments& arguments) {
  TESSERA_TRY(const std::vector<std::string> files, files_of(arguments.paths));
  std::vector<std::string> read = files;
  read.push_back(arguments.model);
  TESSERA_RETURN_IF_ERROR(streaming::check_trace(arguments.devices.trace, read));
  std::vector<speech::Recording> recordings;
  for (const std::string& file : files) {
    TESSERA_TRY(speech::Recording recording, speech::read_wav(file));
    recordings.push_back(std::move(recording));
  }
  TESSERA_TRY(const tessera::Network network,
              speech::load_voice_network(arguments.model, arguments.devices.arch));
  TESSERA_TRY(const std::vector<tessera::DeviceOptions> devices,
              streaming::device_options(arguments.devices));
  speech::Detection detection;
  if (arguments.plain) {
    TESSERA_TRY(detection, speech::detect_one_by_one(
                               network, {.device = devices[0].kind, .threads = devices[0].threads},
                               std::move(recordings)));
  } else {
    TESSERA_TRY(detection, speech::detect_streams(network,
                                                  {.devices = devices,
                                                   .trace = arguments.devices.trace,
                                                   .http = arguments.devices.http},
                                                  std::move(recordings)));
  }
  arguments.json ? print_json(arguments, detection) : print_text(arguments, detection);
  for (const auto& result : detection.recordings) {
    if (!result.error.empty()) {
      return tessera::Error{tessera::ErrorCode::kUnavailable,
                            "'" + result.voice->recording.path + "': " + result.error};
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"The speech segments of recordings, on a neural processor.", "speech"};
  app.add_option("recordings", arguments.paths,
                 ".wav files (16-bit PCM, one channel, 16000 samples a second) or folders of them")
      ->required();
  app.add_option("--model", arguments.model, "silero_vad, from scripts/fetch_vad_model.sh")
      ->required();
  streaming::add_arguments(app, arguments.devices, 1);
  app.add_option("--threshold", arguments.segments.threshold, "probability speech begins with")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--threshold-end", arguments.segments.threshold_end,
                 "probability below which it ends")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--silence", arguments.segments.silence_seconds, "that ends it, in seconds")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--shortest", arguments.segments.speech_seconds, "segment kept, in seconds")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_flag("--plain", arguments.plain, "one chunk after the other, without the pipeline");
  app.add_flag("--json", arguments.json, "print one JSON object");
  app.footer(
      "Example:\n  speech recordings/ --model \"$(scripts/fetch_vad_model.sh)\" --kernels 2");
  if (const auto ended = streaming::parse(app, argc, argv)) return *ended;
  streaming::begin_standard_output();
  Status status = run(arguments);
  if (status.ok()) status = streaming::finish_standard_output();
  if (status.ok()) return 0;
  streaming::print_error("speech", status.error());
  return 1;
}
