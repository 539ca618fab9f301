// ocr PICTURE: reads the text in a picture on a neural processor, and shows what it cost.
// ocr FOLDER: reads all pictures of a folder, streaming (folder.h).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "annotate.h"
#include "folder_program.h"
#include "pipeline.h"
#include "tessera/visible_text.h"

namespace {

struct Arguments {
  std::string picture, models, output = "out", arch = "tessera128", device = "sim";
  int threads = 0;
  int cores = 1;
  std::string cores_arch = "cloud16";
};

tessera::ProgressCallback progress_bar() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](const std::string& stage, double fraction) {
    const int filled = static_cast<int>(fraction * 30);
    std::fprintf(stderr, "\r\033[K%-24s [%.*s%*s] %3.0f %%%s", tessera::visible_text(stage).c_str(),
                 filled, "##############################", 30 - filled, "", fraction * 100,
                 fraction >= 1 ? "\r\033[K" : "");
    std::fflush(stderr);
  };
}

void print_lines(const std::vector<ocr::Line>& lines) {
  std::printf("%zu lines of text\n", lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::printf("%4zu  %5.1f %%  %s\n", i + 1, lines[i].confidence * 100,
                tessera::visible_text(lines[i].text).c_str());
  }
}

void print_use(const ocr::ModelUse& use) {
  std::printf("\n%s: %lld runs, %lld nodes on the processor, %lld on the host\n",
              tessera::visible_text(use.name).c_str(), static_cast<long long>(use.runs),
              static_cast<long long>(use.placement.nodes_on_processor),
              static_cast<long long>(use.placement.nodes_on_host));
  for (const tessera::HostStepNote& step : use.placement.host_steps) {
    std::printf("  host: '%s' (%s): %s\n", tessera::visible_text(step.node).c_str(),
                tessera::visible_text(step.operator_name).c_str(),
                tessera::visible_text(step.reason).c_str());
  }
  if (use.cycles == 0) return;
  std::printf("  %lld cycles = %.3f ms at %lld MHz\n", static_cast<long long>(use.cycles),
              static_cast<double>(use.cycles) * 1e3 / static_cast<double>(use.clock_hertz),
              static_cast<long long>(use.clock_hertz / 1'000'000));
  std::printf("  %-14s %14s %12s %16s %16s\n", "engine", "busy cycles", "utilisation",
              "waits for data", "waits for memory");
  for (const tessera::EngineUse& engine : use.engines) {
    std::printf("  %-14s %14lld %10.1f %% %16lld %16lld\n", engine.name.c_str(),
                static_cast<long long>(engine.busy),
                100.0 * static_cast<double>(engine.busy) / static_cast<double>(use.cycles),
                static_cast<long long>(engine.blocked_dependency),
                static_cast<long long>(engine.blocked_memory));
  }
}

// Timeline and report of the model's last run.
tessera::Status write_run(const ocr::TesseraInference& model, const std::string& name,
                          const std::string& folder) {
  if (model.last_run() == nullptr || model.last_run()->timeline.empty()) return {};
  const std::string trace = folder + "/" + name + "_timeline.json";
  const std::string report = folder + "/" + name + "_report.html";
  TESSERA_RETURN_IF_ERROR(tessera::write_perfetto(trace, *model.last_run()));
  TESSERA_RETURN_IF_ERROR(tessera::write_html_report(report, "PP-OCRv4 " + name,
                                                     *model.last_network(), *model.last_run()));
  std::printf("  timeline   %s\n  report     %s\n", tessera::visible_text(trace).c_str(),
              tessera::visible_text(report).c_str());
  return {};
}

struct ModelSet {
  ModelSet(const std::string& folder, const ocr::TesseraOptions& options)
      : detection("detection", folder + "/ch_PP-OCRv4_det_infer.onnx", options),
        direction("direction", folder + "/ch_ppocr_mobile_v2.0_cls_infer.onnx", options),
        recognition("recognition", folder + "/ch_PP-OCRv4_rec_infer.onnx", options) {}

  tessera::Result<std::vector<ocr::Line>> read(const tessera::Picture& picture,
                                               const std::vector<std::string>& characters,
                                               const tessera::ProgressCallback& progress) {
    return ocr::read_text(picture, {detection, direction, recognition, characters}, {}, progress);
  }
  long long cycles() const {
    return detection.use().cycles + direction.use().cycles + recognition.use().cycles;
  }

  ocr::TesseraInference detection, direction, recognition;
};

// How many lines say the same, place by place.
std::size_t same_lines(const std::vector<ocr::Line>& a, const std::vector<ocr::Line>& b) {
  std::size_t same = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) same += a[i].text == b[i].text;
  return same;
}

// Reads the picture on several cores of a card, and on one of them, and says what it takes.
tessera::Status read_on_cores(const Arguments& arguments, const tessera::Picture& picture,
                              const std::vector<std::string>& characters,
                              const std::vector<ocr::Line>& lines) {
  ocr::TesseraOptions options;
  options.arch = arguments.cores_arch;
  options.progress = progress_bar();
  ModelSet one(arguments.models, options);
  TESSERA_TRY(const std::vector<ocr::Line> of_one, one.read(picture, characters, options.progress));
  options.cores = arguments.cores;
  ModelSet several(arguments.models, options);
  TESSERA_TRY(const std::vector<ocr::Line> of_several,
              several.read(picture, characters, options.progress));
  const auto equal = [](const ocr::Line& a, const ocr::Line& b) {
    return a.text == b.text && a.confidence == b.confidence;
  };
  if (!std::equal(of_one.begin(), of_one.end(), of_several.begin(), of_several.end(), equal)) {
    return tessera::Error{tessera::ErrorCode::kInternal,
                          "several cores read other lines than one core"};
  }
  std::printf(
      "\n%d cores of %s: %zu of these %zu lines, %lld cycles; one core %lld: %.2f times as fast\n",
      arguments.cores, tessera::visible_text(arguments.cores_arch).c_str(),
      same_lines(lines, of_several), lines.size(), several.cycles(), one.cycles(),
      static_cast<double>(one.cycles()) / static_cast<double>(several.cycles()));
  return {};
}

tessera::Status run(const Arguments& arguments) {
  TESSERA_TRY(const tessera::Picture picture, tessera::read_picture(arguments.picture));
  ocr::TesseraOptions options;
  options.arch = arguments.arch;
  options.threads = arguments.threads;
  options.trace = true;
  options.progress = progress_bar();
  TESSERA_TRY(options.device, tessera::device_kind_from_name(arguments.device));
  if (arguments.cores > 1 && options.device != tessera::DeviceKind::kSim) {
    return tessera::Error{tessera::ErrorCode::kInvalidArgument,
                          "--cores belongs to the device sim; the device is " + arguments.device};
  }
  ModelSet models(arguments.models, options);
  TESSERA_TRY(const std::vector<std::string> characters,
              ocr::read_characters(arguments.models + "/ppocr_keys_v1.txt"));
  TESSERA_TRY(const std::vector<ocr::Line> lines,
              models.read(picture, characters, options.progress));
  print_lines(lines);
  for (const auto* model : {&models.detection, &models.direction, &models.recognition}) {
    print_use(model->use());
  }
  if (arguments.cores > 1) {
    TESSERA_RETURN_IF_ERROR(read_on_cores(arguments, picture, characters, lines));
  }
  std::error_code error;
  std::filesystem::create_directories(arguments.output, error);
  const std::string annotated = arguments.output + "/annotated.png";
  if (std::filesystem::equivalent(annotated, arguments.picture, error)) {
    return tessera::Error{tessera::ErrorCode::kInvalidArgument,
                          "the annotated picture would be written over '" + arguments.picture +
                              "'; name another folder with --output"};
  }
  TESSERA_RETURN_IF_ERROR(tessera::write_png(annotated, ocr::annotate(picture, lines)));
  std::printf("\nwrote\n  picture    %s\n", tessera::visible_text(annotated).c_str());
  TESSERA_RETURN_IF_ERROR(write_run(models.detection, "detection", arguments.output));
  TESSERA_RETURN_IF_ERROR(write_run(models.direction, "direction", arguments.output));
  return write_run(models.recognition, "recognition", arguments.output);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  ocr::FolderArguments folder;
  CLI::App app{
      "Reads the text in a picture, or in all pictures of a folder, on a neural processor.", "ocr"};
  app.add_option("picture", arguments.picture, ".png or .jpg, or a folder of them")->required();
  app.add_option("--models", arguments.models, "folder with the PP-OCRv4 models")->required();
  folder.devices.kinds = {"sim"};
  streaming::add_arguments(app, folder.devices, 2);
  app.add_option("--output", arguments.output,
                 "of one picture: folder for picture, timeline, report")
      ->capture_default_str();
  app.add_option("--cores", arguments.cores,
                 "of one picture: read it again on so many cores of a card, and on one of them")
      ->check(CLI::Range(1, 64));
  app.add_option("--cores-arch", arguments.cores_arch, "of --cores: the architecture with the card")
      ->capture_default_str();
  app.add_option("--frame", folder.frame, "of a folder: what the detector sees, WIDTHxHEIGHT")
      ->capture_default_str();
  app.add_flag("--no-direction", folder.no_direction,
               "of a folder: no line stands on its head, do not look");
  app.add_flag("--tune", folder.tune, "of a folder: balance the stages' threads");
  app.add_flag("--plain", folder.plain, "of a folder: one run after the other, no pipeline");
  app.add_flag("--json", folder.json, "of a folder: print one JSON object");
  app.footer(
      "Example:\n  ocr scans/ --models \"$(scripts/fetch_ocr_models.sh)\" --device host,host");
  if (const auto ended = streaming::parse(app, argc, argv)) return *ended;
  streaming::begin_standard_output();
  std::error_code error;
  tessera::Status status;
  // Of one picture they would have no effect.
  const auto folder_options = {"--kernels", "--pace",  "--http", "--trace",       "--frame",
                               "--tune",    "--plain", "--json", "--no-direction"};
  const bool of_folder = std::filesystem::is_directory(arguments.picture, error);
  if (of_folder && app.count("--cores") > 0) {
    status = tessera::Error{tessera::ErrorCode::kInvalidArgument,
                            "--cores is for one picture, and '" + arguments.picture +
                                "' is a folder: leave it out, or name a picture"};
  } else if (of_folder) {
    folder.folder = arguments.picture;
    folder.models = arguments.models;
    status = ocr::run_folder(folder);
  } else if (const auto* const given =
                 std::find_if(folder_options.begin(), folder_options.end(),
                              [&app](const char* name) { return app.count(name) > 0; });
             given != folder_options.end()) {
    status =
        tessera::Error{tessera::ErrorCode::kInvalidArgument,
                       std::string(*given) + " is for a folder of pictures, and '" +
                           arguments.picture + "' is one file: leave it out, or name a folder"};
  } else if (folder.devices.kinds.size() > 1) {
    status =
        tessera::Error{tessera::ErrorCode::kInvalidArgument,
                       "--device with two kinds is for a folder of pictures; one picture takes "
                       "one"};
  } else {
    arguments.arch = folder.devices.arch;
    arguments.device = folder.devices.kinds.front();
    arguments.threads = folder.devices.threads;
    status = run(arguments);
  }
  if (status.ok()) status = streaming::finish_standard_output();
  if (status.ok()) return 0;
  streaming::print_error("ocr", status.error());
  return 1;
}
