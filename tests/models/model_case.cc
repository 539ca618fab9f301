#include "model_case.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "arith/rounding.h"
#include "tools/tensor_file.h"

namespace tessera::cases {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Shape parse_dims(const std::string& text) {
  Shape dims;
  for (const std::string& part : split(text, 'x')) {
    if (!part.empty()) dims.push_back(std::stoll(part));
  }
  return dims;
}

std::map<std::string, std::string> parse_how(const std::string& how) {
  std::map<std::string, std::string> fields;
  for (const std::string& part : split(how, ';')) {
    const std::size_t equals = part.find('=');
    fields[part.substr(0, equals)] = equals == std::string::npos ? "" : part.substr(equals + 1);
  }
  return fields;
}

std::vector<float> numbers(const std::string& text) {
  std::vector<float> result;
  for (const std::string& part : split(text, ',')) result.push_back(std::stof(part));
  return result;
}

// y = (x - mean[c]) / std[c] in binary32, with c counted after the channel order is reversed.
Tensor normalise(const Tensor& bytes, std::map<std::string, std::string>& how,
                 const Shape& wanted) {
  const std::int64_t height = bytes.dims[2], width = bytes.dims[3];
  const std::vector<float> mean = numbers(how["mean"]), deviation = numbers(how["std"]);
  const bool reversed = how["order"] == "bgr", last = how["layout"] == "nhwc";
  const Format format = how["cast"] == "f16" ? Format::kF16 : Format::kF32;
  Tensor result = Tensor::zeros(format, wanted);
  const auto pixels = bytes.as<std::uint8_t>();
  for (std::int64_t c = 0; c < 3; ++c) {
    const std::int64_t source = reversed ? 2 - c : c;
    for (std::int64_t i = 0; i < height * width; ++i) {
      const auto pixel =
          static_cast<float>(pixels[static_cast<std::size_t>(source * height * width + i)]);
      const auto channel = static_cast<std::size_t>(c);
      const float value = (pixel - mean[channel]) / deviation[channel];
      const std::int64_t at = last ? i * 3 + c : c * height * width + i;
      arith::write_element(format, static_cast<double>(value),
                           result.bytes.data() + at * format_bytes(format));
    }
  }
  return result;
}

double overlap(const Detection& a, const Detection& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const double area_a = (a.right - a.left) * (a.bottom - a.top);
  const double area_b = (b.right - b.left) * (b.bottom - b.top);
  return width * height / (area_a + area_b - width * height);
}

}  // namespace

Result<std::vector<ModelCase>> read_cases(const std::string& folder, const std::string& model) {
  std::ifstream in(folder + "/cases/CASES.tsv");
  std::vector<ModelCase> cases;
  std::string line;
  std::getline(in, line);  // column names
  while (std::getline(in, line)) {
    const std::vector<std::string> columns = split(line, '\t');
    // A row with index "*" describes a whole data set, not a case.
    if (columns.size() < 9 || columns[0] != model || columns[3] == "*") continue;
    if (cases.empty() || cases.back().name != columns[1]) {
      cases.push_back({columns[0], columns[1], {}, {}});
    }
    CaseTensor row{columns[0], columns[1], columns[2] == "in", std::stoul(columns[3]), columns[4],
                   columns[5], columns[7], columns[8],         parse_dims(columns[6])};
    (row.is_input ? cases.back().inputs : cases.back().outputs).push_back(std::move(row));
  }
  if (cases.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no cases of '" + model + "' in '" + folder + "'"};
  }
  return cases;
}

Result<Tensor> read_case_input(const std::string& folder, const CaseTensor& row) {
  TESSERA_TRY(Tensor tensor, tools::read_npy(folder + "/" + row.file));
  if (row.how == "raw") return tensor;
  std::map<std::string, std::string> how = parse_how(row.how);
  if (how.contains("as-is")) return tensor;
  if (how.contains("minus128")) {
    for (std::byte& value : tensor.bytes) value ^= std::byte{0x80};  // x - 128 in 8 bits
    tensor.format = Format::kI8;
    return tensor;
  }
  return normalise(tensor, how, row.dims);
}

Result<Tensor> read_case_output(const std::string& folder, const CaseTensor& row) {
  return tools::read_npy(folder + "/" + row.file);
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(element_count(tensor.dims)));
  const std::int64_t element = format_bytes(tensor.format);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = arith::read_element(tensor.format,
                                    tensor.bytes.data() + static_cast<std::int64_t>(i) * element);
  }
  return values;
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa == 0 && bb == 0 ? 1 : ab / std::sqrt(aa * bb);
}

std::size_t argmax(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

std::vector<Detection> decode_fastestdet(const std::vector<double>& head, const Shape& dims,
                                         double network_pixels) {
  const auto height = static_cast<std::size_t>(dims[2]), width = static_cast<std::size_t>(dims[3]);
  const std::size_t plane = height * width, categories = static_cast<std::size_t>(dims[1]) - 5;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  std::vector<Detection> found;
  for (std::size_t at = 0; at < plane; ++at) {
    std::size_t best = 0;
    for (std::size_t c = 1; c < categories; ++c) {
      if (head[(5 + c) * plane + at] > head[(5 + best) * plane + at]) best = c;
    }
    const double score = std::pow(head[at], 0.6) * std::pow(head[(5 + best) * plane + at], 0.4);
    if (!(score > 0.5)) continue;
    const double x = (static_cast<double>(at % width) + std::tanh(head[plane + at])) /
                     static_cast<double>(width);
    const double y = (static_cast<double>(at / width) + std::tanh(head[2 * plane + at])) /
                     static_cast<double>(height);
    const double w = sigmoid(head[3 * plane + at]), h = sigmoid(head[4 * plane + at]);
    found.push_back({best, score, (x - w / 2) * network_pixels, (y - h / 2) * network_pixels,
                     (x + w / 2) * network_pixels, (y + h / 2) * network_pixels});
  }
  std::sort(found.begin(), found.end(),
            [](const Detection& a, const Detection& b) { return a.score > b.score; });
  std::vector<Detection> kept;
  for (const Detection& candidate : found) {
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](const Detection& better) {
      return better.category == candidate.category && overlap(better, candidate) > 0.45;
    });
    if (!covered) kept.push_back(candidate);
  }
  return kept;
}

}  // namespace tessera::cases
