#include "folder_program.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tessera/visible_text.h"

namespace ocr {
namespace {

using nlohmann::ordered_json;
using tessera::Result;
using tessera::Status;

// "640x480": multiples of 32.
Status parse_frame(const std::string& text, ReadingOptions& options) {
  const char* const end = text.data() + text.size();
  const auto width = std::from_chars(text.data(), end, options.frame_width);
  const bool separated = width.ec == std::errc() && width.ptr != end && *width.ptr == 'x';
  const auto height = separated ? std::from_chars(width.ptr + 1, end, options.frame_height) : width;
  const auto good = [](std::int64_t side) { return side >= 32 && side <= 4096 && side % 32 == 0; };
  if (separated && height.ec == std::errc() && height.ptr == end && good(options.frame_width) &&
      good(options.frame_height)) {
    return {};
  }
  return tessera::Error{
      tessera::ErrorCode::kInvalidArgument,
      "--frame '" + text + "'; needed: WIDTHxHEIGHT, multiples of 32 from 32 to 4096"};
}

struct Tally {
  std::size_t pictures = 0, lines = 0, failed = 0;
  std::vector<double> seconds;  // of each picture
  ordered_json list = ordered_json::array();
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print_picture(const PictureText& text) {
  std::printf("%s\n", tessera::visible_text(text.path).c_str());
  if (!text.error.empty())
    std::printf("  not read: %s\n", tessera::visible_text(text.error).c_str());
  for (const Line& line : text.lines) {
    std::printf("  %5.1f %%  %s\n", line.confidence * 100,
                tessera::visible_text(line.text).c_str());
  }
}

ordered_json picture_json(const PictureText& text) {
  ordered_json lines = ordered_json::array();
  for (const Line& line : text.lines) {
    ordered_json box = ordered_json::array();
    for (const Point& corner : line.box) box.push_back({corner.x, corner.y});
    lines.push_back({{"text", line.text}, {"confidence", line.confidence}, {"box", box}});
  }
  return {{"path", text.path}, {"lines", lines}, {"error", text.error}};
}

// Models as sessions, for the plain loop.
class PlainModels {
 public:
  PlainModels(const FolderArguments& arguments, tessera::DeviceKind kind, int threads)
      : options_{.arch = arguments.devices.arch,
                 .device = kind,
                 .threads = threads,
                 .progress = {}},
        detection_("detection", arguments.models + "/ch_PP-OCRv4_det_infer.onnx", options_),
        direction_("direction", arguments.models + "/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                   options_),
        recognition_("recognition", arguments.models + "/ch_PP-OCRv4_rec_infer.onnx", options_) {}

  // Compiles for the shapes that will come.
  Status prepare(const ReadingOptions& options) {
    TESSERA_RETURN_IF_ERROR(detection_.prepare({1, 3, options.frame_height, options.frame_width}));
    if (options.direction) {
      TESSERA_RETURN_IF_ERROR(direction_.prepare({1, 3, kLineHeight, kDirectionWidth}));
    }
    for (const std::int64_t width : options.line_widths) {
      TESSERA_RETURN_IF_ERROR(recognition_.prepare({1, 3, kLineHeight, width}));
    }
    return {};
  }
  Models models(std::vector<std::string> characters) {
    return {detection_, direction_, recognition_, std::move(characters)};
  }

 private:
  const TesseraOptions options_;
  TesseraInference detection_, direction_, recognition_;
};

Result<streaming::Use> read_plainly(const FolderArguments& arguments, const FolderOptions& options,
                                    const std::vector<std::string>& paths,
                                    const PictureCallback& callback) {
  PlainModels sessions(arguments, options.devices[0].kind, options.devices[0].threads);
  TESSERA_RETURN_IF_ERROR(sessions.prepare(options.reading));
  TESSERA_TRY(std::vector<std::string> characters,
              read_characters(options.models + "/ppocr_keys_v1.txt"));
  streaming::Use use;
  TESSERA_TRY(use.seconds, read_one_by_one(paths, sessions.models(std::move(characters)),
                                           options.reading, callback));
  return use;
}

Result<streaming::Use> read_streaming(const FolderOptions& options,
                                      const std::vector<std::string>& paths,
                                      const PictureCallback& callback) {
  TESSERA_TRY(FolderReader reader, FolderReader::open(options));
  return reader.read(paths, callback);
}

void print_total(const FolderArguments& arguments, const Tally& tally, const streaming::Use& use) {
  const double rate = static_cast<double>(tally.pictures) / use.seconds;
  if (arguments.json) {
    const ordered_json all = {{"pictures", tally.list},
                              {"lines", tally.lines},
                              {"failed", tally.failed},
                              {"pictures_per_second", rate},
                              {"median_seconds", median(tally.seconds)},
                              {"use", streaming::use_json(use)}};
    std::printf("%s\n", streaming::json_text(all).c_str());
    return;
  }
  std::printf(
      "\n%zu pictures, %zu lines in %.2f s: %.2f pictures and %.1f lines a second; half of "
      "the pictures took %.3f s or less\n",
      tally.pictures, tally.lines, use.seconds, rate,
      static_cast<double>(tally.lines) / use.seconds, median(tally.seconds));
  if (!use.devices.empty()) streaming::print_use(use);
}

}  // namespace

Status run_folder(const FolderArguments& arguments) {
  FolderOptions options;
  options.models = arguments.models;
  options.arch = arguments.devices.arch;
  options.tune = arguments.tune;
  options.trace = arguments.devices.trace;
  options.http = arguments.devices.http;
  TESSERA_RETURN_IF_ERROR(parse_frame(arguments.frame, options.reading));
  options.reading.direction = !arguments.no_direction;
  TESSERA_TRY(options.devices, streaming::device_options(arguments.devices));
  TESSERA_TRY(const std::vector<std::string> paths, pictures_in(arguments.folder));
  TESSERA_RETURN_IF_ERROR(streaming::check_trace(options.trace, paths));
  Tally tally;
  const PictureCallback note = [&tally, &arguments](const PictureText& text) {
    ++tally.pictures;
    tally.lines += text.lines.size();
    tally.failed += text.error.empty() ? 0 : 1;
    tally.seconds.push_back(text.seconds);
    if (arguments.json) {
      tally.list.push_back(picture_json(text));
    } else {
      print_picture(text);
    }
  };
  TESSERA_TRY(const streaming::Use use, arguments.plain
                                            ? read_plainly(arguments, options, paths, note)
                                            : read_streaming(options, paths, note));
  print_total(arguments, tally, use);
  if (tally.failed == 0) return {};
  return tessera::Error{tessera::ErrorCode::kInvalidArgument,
                        std::to_string(tally.failed) + " of " + std::to_string(tally.pictures) +
                            " pictures could not be read"};
}

}  // namespace ocr
