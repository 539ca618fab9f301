#include "tools/run/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace tessera::tools {
namespace {

// "x=random:7" of a later image: "x=random:8" of the next. What is no number stays as it is.
std::string for_image(const std::string& text, int image) {
  const std::size_t place = text.find('=') == std::string::npos ? 0 : text.find('=') + 1;
  if (text.compare(place, 6, "random") != 0) return text;
  std::uint64_t seed = 0;
  const std::size_t colon = place + 6;
  if (colon < text.size()) {
    const char* const end = text.data() + text.size();
    const auto [stopped, status] = std::from_chars(text.data() + colon + 1, end, seed);
    if (text[colon] != ':' || status != std::errc{} || stopped != end) return text;
  }
  return fmt::format("{}:{}", text.substr(0, colon), seed + static_cast<std::uint64_t>(image));
}

double images_per_second(const RunResult& run) {
  return static_cast<double>(run.images) * static_cast<double>(run.clock_hertz) /
         static_cast<double>(std::max<std::int64_t>(1, run.cycles));
}

}  // namespace

Result<std::vector<Tensor>> read_images(const std::vector<std::string>& texts,
                                        const std::vector<TensorDescription>& inputs,
                                        const ImagePreprocessing& preprocessing, int images) {
  std::vector<Tensor> all;
  for (int image = 0; image < images; ++image) {
    std::vector<std::string> its;
    bool others = false;  // those that are not named are told
    for (const std::string& text : texts) {
      its.push_back(for_image(text, image));
      others = others || text.starts_with("random");
    }
    if (!others && (texts.empty() || inputs.size() > 1)) {
      its.push_back(fmt::format("random:{}", image));
    }
    TESSERA_TRY(std::vector<Tensor> tensors, read_inputs(its, inputs, preprocessing));
    for (Tensor& tensor : tensors) all.push_back(std::move(tensor));
  }
  return all;
}

std::vector<TensorDescription> outputs_of_images(const std::vector<TensorDescription>& outputs,
                                                 int images) {
  if (images == 1) return outputs;
  std::vector<TensorDescription> all;
  for (int image = 0; image < images; ++image) {
    for (TensorDescription output : outputs) {
      output.name += fmt::format("@{}", image);
      all.push_back(std::move(output));
    }
  }
  return all;
}

std::string images_text(const RunResult& run) {
  if (run.images == 1) return "";
  return fmt::format("; {} images at once, {:.1f} a second", run.images, images_per_second(run));
}

void add_images(const RunResult& run, nlohmann::json& document) {
  if (run.images == 1) return;
  document["images"] = run.images;
  document["images_per_second"] = images_per_second(run);
}

}  // namespace tessera::tools
