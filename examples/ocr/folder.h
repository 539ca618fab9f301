// Reading many pictures: the steps of reading.h as stages of one pipeline, so that one picture is
// decoded while the text of the one before is looked for and the lines of a third are read.
//
//   [decode] ─► [pre | detection | post] ─► [crop] ─► [direction] ─► [turn] ─►
//       [lines of 320] ─► [sort 640] ─► [lines of 640] ─► [sort 1280] ─► [lines of 1280] ─► [text]
//
// A picture is one task; after [crop] its runs are its lines. The tensors of lines are in the
// models' own format, so those need neither pre nor post. Detector and recogniser may lie on
// devices of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipeline.h"
#include "streaming.h"
#include "tessera/runtime.h"

namespace ocr {

// One network for all pictures, and one for each of a few widths of lines.
ReadingOptions folder_reading();

struct FolderOptions {
  std::string models, arch = "tessera128";
  std::vector<tessera::DeviceOptions> devices;  // one for all, or detector's and recogniser's
  ReadingOptions reading = folder_reading();
  int host_threads = 2;    // of each stage that works on pictures
  std::size_t ahead = 32;  // pictures in flight
  bool tune = false;
  std::string trace;  // written at the end, if not empty
  std::string http;   // where to serve a live page, if not empty
};

// What became of one picture: lines, or why there are none.
struct PictureText {
  std::string path;
  std::vector<Line> lines;
  std::string error;
  double seconds = 0;  // from its submission on
};
using PictureCallback = std::function<void(const PictureText&)>;

// .png, .jpg and .jpeg files, sorted by name.
tessera::Result<std::vector<std::string>> pictures_in(const std::string& folder);

// A pipeline with its models loaded.
class FolderReader {
 public:
  static tessera::Result<FolderReader> open(const FolderOptions& options);
  // Calls back in the order of the paths, from the caller's thread. A picture that cannot be read
  // is reported by its error; the others go on.
  tessera::Result<streaming::Use> read(const std::vector<std::string>& paths,
                                       const PictureCallback& callback);

 private:
  FolderReader(FolderOptions options, tessera::Runtime runtime, tessera::Pipeline pipeline,
               std::optional<tessera::LiveView> live_view)
      : options_(std::move(options)),
        runtime_(std::move(runtime)),
        pipeline_(std::move(pipeline)),
        live_view_(std::move(live_view)) {}

  FolderOptions options_;
  tessera::Runtime runtime_;
  tessera::Pipeline pipeline_;
  std::optional<tessera::LiveView> live_view_;
};

// The same work with the same steps, one run after the other through sessions.
tessera::Result<double> read_one_by_one(const std::vector<std::string>& paths, const Models& models,
                                        const ReadingOptions& options,
                                        const PictureCallback& callback);

}  // namespace ocr
