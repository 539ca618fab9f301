#include "model_case.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "arith/rounding.h"
#include "tools/files/tensor_file.h"

namespace tessera::cases {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

namespace {

Shape parse_dims(const std::string& text) {
  Shape dims;
  for (const std::string& part : split(text, 'x')) {
    if (part != "scalar") dims.push_back(std::stoll(part));
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

// Bytes as a recipe of CASES.tsv wants them.
Tensor preprocess(Tensor bytes, const std::string& recipe, const Shape& wanted) {
  std::map<std::string, std::string> how = parse_how(recipe);
  if (how.contains("as-is")) return bytes;
  if (how.contains("minus128")) {
    for (std::byte& value : bytes.bytes) value ^= std::byte{0x80};  // x - 128 in 8 bits
    bytes.format = Format::kI8;
    return bytes;
  }
  return normalise(bytes, how, wanted);
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
  return row.how == "raw" ? tensor : preprocess(std::move(tensor), row.how, row.dims);
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

double error_over_allowed(const std::vector<double>& found, const std::vector<double>& expected,
                          double relative, double of_range) {
  double low = 0, high = 0, worst = 0;
  for (const double value : expected) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(found[i] - expected[i]);
    if (error == 0) continue;
    const double share = error / (relative * std::abs(expected[i]) + of_range * (high - low));
    worst = std::isnan(share) ? INFINITY : std::max(worst, share);
  }
  return worst;
}

std::size_t argmax(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<SeriesRow> read_series(const std::string& folder, const std::string& model) {
  std::vector<SeriesRow> rows;
  for (const std::string& line : read_lines(folder + "/cases/CASES.tsv")) {
    const std::vector<std::string> columns = split(line, '\t');
    if (columns.size() < 9 || columns[0] != model || columns[3] != "*") continue;
    rows.push_back({columns[0], columns[4], columns[7], columns[8]});
  }
  return rows;
}

Tensor transform_picture(const Tensor& pictures, std::int64_t index, const std::string& how,
                         const Shape& dims) {
  Tensor one = Tensor::zeros(Format::kU8, dims);
  const auto begin = pictures.bytes.begin() + index * static_cast<std::int64_t>(one.bytes.size());
  std::copy_n(begin, one.bytes.size(), one.bytes.begin());
  const std::size_t at = how.find("transform ");
  const std::string recipe = at == std::string::npos ? how : how.substr(at + 10);
  if (recipe.find("f32(u8)") == std::string::npos) return preprocess(one, recipe, one.dims);
  Tensor result = Tensor::zeros(Format::kF32, one.dims);
  const auto pixels = one.as<std::uint8_t>();
  std::copy(pixels.begin(), pixels.end(), result.as<float>().begin());
  return result;
}

bool ModelRow::has_operator(const std::string& op_type) const {
  return (" " + operators).find(" " + op_type + ":") != std::string::npos;
}

Result<std::vector<ModelRow>> read_models(const std::string& folder) {
  const std::vector<std::string> lines = read_lines(folder + "/models/MODELS.tsv");
  std::vector<ModelRow> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> columns = split(lines[i], '\t');
    if (columns.size() < 13) continue;
    ModelRow row{columns[0], columns[9], columns[12]};
    row.million_macs = std::stod(columns[7]);
    row.half = columns[10].find("float16") != std::string::npos;
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no rows in '" + folder + "/models/MODELS.tsv'"};
  }
  return rows;
}

}  // namespace tessera::cases
