#include "pipeline.h"

namespace ocr {

tessera::Result<std::vector<Line>> read_text(const tessera::Picture& picture, const Models& models,
                                             const ReadingOptions& options,
                                             const tessera::ProgressCallback& progress) {
  Reading reading;
  reading.picture = picture;
  TESSERA_TRY(const tessera::Tensor map, models.detection.run(detection_step(reading, options)));
  TESSERA_RETURN_IF_ERROR(boxes_step(reading, map, options));
  for (std::size_t i = 0; i < reading.crops.size(); ++i) {
    if (progress) {
      progress("lines", static_cast<double>(i) / static_cast<double>(reading.crops.size()));
    }
    tessera::Picture& crop = reading.crops[i];
    if (options.direction) {
      TESSERA_TRY(const tessera::Tensor scores, models.direction.run(direction_input(crop)));
      turn_crop(crop, scores, options);
    }
    TESSERA_TRY(const tessera::Tensor probabilities,
                models.recognition.run(recognition_input(crop, line_width(crop, options))));
    TESSERA_TRY(reading.lines[i], decode_line(reading.boxes[i], probabilities, models.characters));
  }
  if (progress) progress("lines", 1);
  return finished_lines(std::move(reading.lines), options);
}

}  // namespace ocr
