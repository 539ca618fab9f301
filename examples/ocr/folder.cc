#include "folder.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>

namespace ocr {
namespace {

using Clock = std::chrono::steady_clock;
using tessera::Result;
using tessera::Status;
using tessera::Task;
using tessera::Tensor;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Reading& reading_of(const Task& task) { return *static_cast<Reading*>(task.payload.get()); }

// Crops of one width, in the order of the boxes.
std::vector<std::size_t> crops_of_width(const Reading& reading, std::int64_t width,
                                        const ReadingOptions& options) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < reading.crops.size(); ++i) {
    if (line_width(reading.crops[i], options) == width) found.push_back(i);
  }
  return found;
}

// Appends the stages one by one; each knows what the next one wants.
class Stages {
 public:
  Stages(const FolderOptions& options, std::vector<std::string> characters)
      : options_(options), characters_(std::move(characters)) {}

  void add_host(const std::string& name, tessera::HostFunction function) {
    stages_.push_back({.kind = tessera::StageKind::kHost,
                       .name = name,
                       .function = std::move(function),
                       .threads = options_.host_threads});
  }

  void add_pre(const tessera::Model& model) {
    stages_.push_back({.kind = tessera::StageKind::kPre, .name = "pre", .model = model});
  }
  // One task at a time: a picture keeps a kernel busy for long enough.
  void add_execute(const std::string& name, const tessera::Model& model,
                   const std::string& device) {
    stages_.push_back({.kind = tessera::StageKind::kExecute,
                       .name = name,
                       .model = model,
                       .devices = {device},
                       .batch = 1});
  }
  void add_post(const tessera::Model& model) {
    stages_.push_back({.kind = tessera::StageKind::kPost, .name = "post", .model = model});
  }

  void add_decode() {
    add_host("decode", [options = options_.reading](Task& task) -> Status {
      Reading& reading = reading_of(task);
      TESSERA_TRY(reading.picture, tessera::read_picture(reading.path));
      task.runs.assign(1, {});
      task.runs[0].push_back(detection_step(reading, options));
      return {};
    });
  }

  // Behind the detection model.
  void add_crop() {
    add_host("crop", [options = options_.reading](Task& task) -> Status {
      Reading& reading = reading_of(task);
      TESSERA_RETURN_IF_ERROR(boxes_step(reading, task.runs.at(0).at(0), options));
      reading.picture = {};
      put_first_runs(task, options);
      return {};
    });
  }

  // Behind the direction model.
  void add_turn() {
    add_host("turn", [options = options_.reading](Task& task) -> Status {
      Reading& reading = reading_of(task);
      for (std::size_t i = 0; i < reading.crops.size(); ++i) {
        turn_crop(reading.crops[i], task.runs.at(i).at(0), options);
      }
      put_lines(task, options, options.line_widths.front());
      return {};
    });
  }

  // Behind the recognition model of one width: its lines out, those of the next width in.
  void add_text(std::size_t width_index) {
    const std::vector<std::int64_t>& widths = options_.reading.line_widths;
    const bool last = width_index + 1 == widths.size();
    add_host(last ? "text" : "sort " + std::to_string(widths[width_index + 1]),
             [options = options_.reading, characters = characters_, width_index,
              last](Task& task) -> Status {
               Reading& reading = reading_of(task);
               const auto which =
                   crops_of_width(reading, options.line_widths[width_index], options);
               for (std::size_t k = 0; k < which.size(); ++k) {
                 const std::size_t i = which[k];
                 TESSERA_TRY(reading.lines[i],
                             decode_line(reading.boxes[i], task.runs.at(k).at(0), characters));
               }
               if (!last) {
                 put_lines(task, options, options.line_widths[width_index + 1]);
                 return {};
               }
               reading.lines = finished_lines(std::move(reading.lines), options);
               reading.crops.clear();
               task.runs.clear();
               return {};
             });
  }

  std::vector<tessera::StageOptions> take() { return std::move(stages_); }

 private:
  static void put_first_runs(Task& task, const ReadingOptions& options) {
    if (!options.direction) {
      put_lines(task, options, options.line_widths.front());
      return;
    }
    task.runs.clear();
    for (const tessera::Picture& crop : reading_of(task).crops) {
      task.runs.emplace_back().push_back(direction_input(crop));
    }
  }

  static void put_lines(Task& task, const ReadingOptions& options, std::int64_t width) {
    Reading& reading = reading_of(task);
    task.runs.clear();
    for (const std::size_t i : crops_of_width(reading, width, options)) {
      task.runs.emplace_back().push_back(recognition_input(reading.crops[i], width));
    }
  }

  const FolderOptions& options_;
  const std::vector<std::string> characters_;
  std::vector<tessera::StageOptions> stages_;
};

Result<tessera::Model> load_model(tessera::Runtime& runtime, const FolderOptions& options,
                                  const std::string& file, const tessera::Shape& dims,
                                  const std::string& device) {
  tessera::LoadOptions load;
  load.arch = options.arch;
  load.shapes["x"] = dims;  // the PP-OCR models call their input "x"
  TESSERA_TRY(const tessera::Network network,
              tessera::Network::load(options.models + "/" + file, load));
  return runtime.load(network, {device});
}

Result<std::vector<tessera::StageOptions>> make_stages(tessera::Runtime& runtime,
                                                       const FolderOptions& options) {
  const std::string& detector = options.devices.front().name;
  const std::string& recogniser = options.devices.back().name;
  const ReadingOptions& reading = options.reading;
  TESSERA_TRY(std::vector<std::string> characters,
              read_characters(options.models + "/ppocr_keys_v1.txt"));
  Stages stages(options, std::move(characters));
  stages.add_decode();
  TESSERA_TRY(const tessera::Model detection,
              load_model(runtime, options, "ch_PP-OCRv4_det_infer.onnx",
                         {1, 3, reading.frame_height, reading.frame_width}, detector));
  stages.add_pre(detection);
  stages.add_execute("detection", detection, detector);
  stages.add_post(detection);
  stages.add_crop();
  if (reading.direction) {
    TESSERA_TRY(const tessera::Model direction,
                load_model(runtime, options, "ch_ppocr_mobile_v2.0_cls_infer.onnx",
                           {1, 3, kLineHeight, kDirectionWidth}, recogniser));
    stages.add_execute("direction", direction, recogniser);
    stages.add_turn();
  }
  for (std::size_t i = 0; i < reading.line_widths.size(); ++i) {
    const std::int64_t width = reading.line_widths[i];
    TESSERA_TRY(const tessera::Model recognition,
                load_model(runtime, options, "ch_PP-OCRv4_rec_infer.onnx",
                           {1, 3, kLineHeight, width}, recogniser));
    stages.add_execute("lines of " + std::to_string(width), recognition, recogniser);
    stages.add_text(i);
  }
  return stages.take();
}

PictureText text_of(tessera::TaskOutcome outcome, std::string path) {
  PictureText text{.path = std::move(path), .lines = {}, .error = {}, .seconds = 0};
  if (!outcome.ok()) {
    const tessera::TaskError& error = outcome.error();
    text.error = error.error.to_string();
    if (!error.stage.empty()) text.error += " (stage '" + error.stage + "')";
    return text;
  }
  text.lines = std::move(static_cast<Reading*>(outcome.result().payload.get())->lines);
  text.seconds = std::chrono::duration<double>(outcome.result().times.total).count();
  return text;
}

}  // namespace

ReadingOptions folder_reading() {
  ReadingOptions reading;
  reading.frame_width = reading.frame_height = 640;
  reading.line_widths = {320, 640, 1280};
  return reading;
}

Result<std::vector<std::string>> pictures_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".png" || extension == ".jpg" || extension == ".jpeg") {
      paths.push_back(entry.path().string());
    }
  }
  if (error || paths.empty()) {
    return tessera::Error{tessera::ErrorCode::kInvalidArgument,
                          "folder '" + folder + "': " +
                              (error ? error.message() : "no .png, .jpg or .jpeg file in it")};
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<FolderReader> FolderReader::open(const FolderOptions& options) {
  TESSERA_TRY(tessera::Runtime runtime, tessera::Runtime::open({.devices = options.devices}));
  tessera::PipelineOptions pipeline;
  TESSERA_TRY(pipeline.stages, make_stages(runtime, options));
  pipeline.jobs_max = options.ahead;
  pipeline.tune = options.tune;
  TESSERA_TRY(tessera::Pipeline opened, runtime.open_pipeline(std::move(pipeline)));
  TESSERA_TRY(auto live_view, streaming::show(runtime, opened, options.http, "text"));
  return FolderReader(options, std::move(runtime), std::move(opened), std::move(live_view));
}

Result<streaming::Use> FolderReader::read(const std::vector<std::string>& paths,
                                          const PictureCallback& callback) {
  const auto begin = Clock::now();
  tessera::Stream stream = pipeline_.open_stream();
  std::deque<tessera::Job> jobs;
  std::size_t done = 0;
  const auto take_first = [&] {
    callback(text_of(jobs.front().wait(), paths[done++]));
    jobs.pop_front();
  };
  for (const std::string& path : paths) {
    auto reading = std::make_shared<Reading>();
    reading->path = path;
    TESSERA_TRY(tessera::Job job, stream.submit_when_room({}, {.payload = std::move(reading)}));
    jobs.push_back(std::move(job));
    while (!jobs.empty() && jobs.front().done()) take_first();
  }
  while (!jobs.empty()) take_first();
  streaming::Use use{.seconds = seconds_since(begin),
                     .devices = runtime_.devices(),
                     .pipeline = pipeline_.status()};
  if (!options_.trace.empty()) {
    TESSERA_RETURN_IF_ERROR(runtime_.write_trace(options_.trace));
  }
  return use;
}

Result<double> read_one_by_one(const std::vector<std::string>& paths, const Models& models,
                               const ReadingOptions& options, const PictureCallback& callback) {
  const auto begin = Clock::now();
  for (const std::string& path : paths) {
    const auto picture_begin = Clock::now();
    PictureText text{.path = path, .lines = {}, .error = {}, .seconds = 0};
    const auto picture = tessera::read_picture(path);
    if (!picture.ok()) {
      text.error = picture.error().to_string();
    } else {
      TESSERA_TRY(text.lines, read_text(*picture, models, options, {}));
    }
    text.seconds = seconds_since(picture_begin);
    callback(text);
  }
  return seconds_since(begin);
}

}  // namespace ocr
