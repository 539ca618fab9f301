// Pictures and sequences. The models of sound are in sound_tasks.cc.
#include "tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "detections.h"
#include "sound_tasks.h"
#include "tools/files/tensor_file.h"

namespace tessera::cases {
namespace {

// The stored result itself hardly prefers one of two classes that are closer than this: a share of
// its range, or a probability. Either may come first.
constexpr double kTieShare = 0.005, kTieProbability = 0.005;

struct Choice {
  std::size_t mine = 0, stored = 0;
  bool tie = false;
  bool agrees() const { return mine == stored || tie; }
};

Choice choose(const std::vector<double>& found, const std::vector<double>& expected) {
  Choice choice{argmax(found), argmax(expected)};
  const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
  const double gap = expected[choice.stored] - expected[choice.mine];
  const bool probabilities = *low >= 0 && *high <= 1;
  const double allowed = probabilities ? kTieProbability : kTieShare * (*high - *low);
  choice.tie = choice.mine != choice.stored && gap <= allowed;
  return choice;
}

std::string labels_file(std::size_t classes) {
  return classes == 1001 ? "/labels/imagenet_1001_plain.txt" : "/labels/imagenet_1000_simple.json";
}

// A JSON list of one string a line, or plain lines.
std::vector<std::string> read_labels(const std::string& path) {
  std::vector<std::string> lines = read_lines(path);
  for (std::string& line : lines) {
    const std::size_t open = line.find('"');
    if (open != std::string::npos) line = line.substr(open + 1, line.rfind('"') - open - 1);
  }
  return lines;
}

// TOP5.tsv: "name=0.779; ..." a picture. The first name is the class wanted.
Result<std::vector<Finding>> top1(const TaskContext& context) {
  Finding finding{"top-1 as stored", "", "", true, ""};
  std::size_t stored = 0, same = 0;
  for (const std::string& line : read_lines(context.folder + "/cases/TOP5.tsv")) {
    const std::vector<std::string> columns = split(line, '\t');
    if (columns.size() < 3 || columns[0] != context.model.name) continue;
    const std::string picture = columns[1].substr(0, columns[1].rfind('.'));
    for (const CaseOutcome& outcome : context.outcomes) {
      if (outcome.one->name != picture) continue;
      const std::vector<double> found = values_of(outcome.found[0]);
      const std::vector<double> expected = values_of(outcome.expected[0]);
      const auto labels = read_labels(context.folder + labels_file(found.size()));
      const std::string wanted = columns[2].substr(0, columns[2].find('='));
      const Choice choice = choose(found, expected);
      const std::string mine = choice.mine < labels.size() ? labels[choice.mine] : "?";
      ++stored;
      same += mine == wanted || choice.tie ? 1 : 0;
      if (mine == wanted) continue;
      finding.detail += fmt::format("{}: '{}', stored '{}'{}; ", picture, mine, wanted,
                                    choice.tie ? " (a tie)" : "");
    }
  }
  if (stored == 0) return std::vector<Finding>{};
  finding.stored = std::to_string(stored);
  finding.found = std::to_string(same);
  finding.ok = same == stored;
  return std::vector{finding};
}

// The file of inputs/datasets whose name begins and ends so.
std::string find_data_set(const std::string& folder, const std::string& begin,
                          const std::string& end) {
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/inputs/datasets")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(end)) return entry.path().string();
  }
  return "";
}

Result<std::vector<Finding>> data_set(const TaskContext& context, const SeriesRow& row) {
  const std::size_t at = row.how.find("inputs/datasets/") + std::string("inputs/datasets/").size();
  const std::string name = row.how.substr(at, row.how.find(' ', at) - at);
  TESSERA_TRY(const Tensor pictures,
              tools::read_npy(find_data_set(context.folder, name, "_u8.npy")));
  TESSERA_TRY(const Tensor labels,
              tools::read_npy(find_data_set(context.folder, name, "_labels.npy")));
  TESSERA_TRY(const Tensor stored, tools::read_npy(context.folder + "/" + row.file));
  const std::vector<double> expected = values_of(stored), truth = values_of(labels);
  const std::size_t classes = expected.size() / truth.size();
  const std::size_t count = std::min(truth.size(), context.series_max);
  const Shape& dims = context.outcomes[0].inputs[0].dims;
  std::size_t right = 0, stored_right = 0, same = 0;
  std::string others;
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor picture = transform_picture(pictures, static_cast<std::int64_t>(i), row.how, dims);
    TESSERA_TRY(const auto outputs, context.runner.run(context.model.name, {picture}));
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(i * classes);
    const std::vector<double> wanted(begin, begin + static_cast<std::ptrdiff_t>(classes));
    const Choice choice = choose(values_of(outputs[0]), wanted);
    right += static_cast<double>(choice.mine) == truth[i] ? 1 : 0;
    stored_right += static_cast<double>(choice.stored) == truth[i] ? 1 : 0;
    same += choice.agrees() ? 1 : 0;
    if (!choice.agrees()) others += fmt::format("; not number {}", i);
  }
  Finding finding{fmt::format("right of {}", count), std::to_string(stored_right),
                  std::to_string(right), true, ""};
  // A narrower format may change the few pictures between two classes.
  finding.ok = context.exact ? same == count : 100 * same >= 99 * count;
  finding.detail = fmt::format("{} of {} as stored{}", same, count, others);
  const std::string claim = fmt::format("top-1 {}/{}", stored_right, count);
  if (count == truth.size() && claim != context.model.sanity) {
    finding.ok = false;
    finding.detail += "; MODELS.tsv says " + context.model.sanity;
  }
  return std::vector{finding};
}

std::vector<std::string> detection_names(const TaskContext& context) {
  const bool ssd = context.model.name.starts_with("ssd");
  return read_lines(context.folder + (ssd ? "/labels/ssd_coco_91.txt" : "/labels/coco_80.names"));
}

std::string detections_text(const std::vector<Detection>& list,
                            const std::vector<std::string>& names) {
  std::string text;
  for (const Detection& d : list) {
    text += fmt::format("{} {:.2f} [{:.0f}, {:.0f}, {:.0f}, {:.0f}]; ",
                        d.category < names.size() ? names[d.category] : "?", d.score, d.left, d.top,
                        d.right, d.bottom);
  }
  return text;
}

// The row of DETECTIONS.tsv for a case; without one, what the stored outputs decode to.
std::vector<Detection> wanted_detections(const TaskContext& context, const CaseOutcome& outcome,
                                         std::vector<Detection> decoded) {
  for (const std::string& line : read_lines(context.folder + "/cases/DETECTIONS.tsv")) {
    const std::vector<std::string> columns = split(line, '\t');
    if (columns.size() < 5 || columns[0] != context.model.name) continue;
    if (columns[1].substr(0, columns[1].rfind('.')) != outcome.one->name) continue;
    return parse_detections(columns[4], detection_names(context));
  }
  return decoded;
}

Result<std::vector<Finding>> detections(const TaskContext& context, Decoder decode) {
  Finding finding{"objects as stored", "", "", true, ""};
  std::size_t stored = 0, same = 0;
  for (const CaseOutcome& outcome : context.outcomes) {
    const Shape& dims = outcome.inputs[0].dims;
    const auto width = static_cast<double>(dims[3]), height = static_cast<double>(dims[2]);
    const auto mine = suppress(decode(outcome.found, width, height));
    const auto wanted =
        wanted_detections(context, outcome, suppress(decode(outcome.expected, width, height)));
    const std::size_t matches = count_matches(mine, wanted);
    const bool equal = matches == wanted.size() && mine.size() == wanted.size();
    stored += wanted.size();
    same += matches;
    finding.ok = finding.ok && equal;
    finding.detail += outcome.one->name + ": " + detections_text(mine, detection_names(context));
    if (!equal) finding.detail += "STORED: " + detections_text(wanted, detection_names(context));
  }
  finding.stored = std::to_string(stored);
  finding.found = std::to_string(same);
  finding.ok = finding.ok && stored > 0;
  return std::vector{finding};
}

// A number that is made from the outputs, ours and the stored ones.
struct Measure {
  const char* model;  // the beginning of its name
  const char* what;
  double (*measure)(const std::vector<Tensor>& outputs);
  double tolerance;  // absolute, for every profile
};

double share_above(const Tensor& tensor, double threshold) {
  const std::vector<double> values = values_of(tensor);
  const auto above =
      std::count_if(values.begin(), values.end(), [&](double value) { return value > threshold; });
  return static_cast<double>(above) / static_cast<double>(values.size());
}

double person_share(const std::vector<Tensor>& outputs) {
  return 100 * share_above(outputs[0], 0.5);
}

// How much nearer (0 to 1) the lowest tenth of the picture is than the highest.
double depth_difference(const std::vector<Tensor>& outputs) {
  const std::vector<double> depth = values_of(outputs[0]);
  const auto [low, high] = std::minmax_element(depth.begin(), depth.end());
  const std::size_t tenth = depth.size() / 10;
  double top = 0, bottom = 0;
  for (std::size_t i = 0; i < tenth; ++i) {
    top += depth[i];
    bottom += depth[depth.size() - 1 - i];
  }
  return (bottom - top) / static_cast<double>(tenth) / (*high - *low);
}

double boundary_count(const std::vector<Tensor>& outputs) {
  return share_above(outputs[0], 0) * static_cast<double>(element_count(outputs[0].dims));
}

constexpr Measure kMeasures[] = {{"selfie_segmentation", "person, % of picture", person_share, 0.5},
                                 {"tcmonodepth", "ground nearer than sky", depth_difference, 0.01},
                                 {"byte_sb", "sentence, word ends", boundary_count, 0}};

Result<std::vector<Finding>> measures(const TaskContext& context) {
  std::vector<Finding> findings;
  for (const Measure& row : kMeasures) {
    if (!context.model.name.starts_with(row.model)) continue;
    for (const CaseOutcome& outcome : context.outcomes) {
      const double stored = row.measure(outcome.expected), found = row.measure(outcome.found);
      findings.push_back({row.what, fmt::format("{:.4g}", stored), fmt::format("{:.4g}", found),
                          std::abs(found - stored) <= row.tolerance, outcome.one->name});
    }
  }
  return findings;
}

}  // namespace

Result<std::vector<Finding>> run_tasks(const TaskContext& context) {
  std::vector<Finding> all;
  const auto add = [&](Result<std::vector<Finding>> found) -> Status {
    if (!found.ok()) return found.error();
    all.insert(all.end(), found->begin(), found->end());
    return {};
  };
  TESSERA_RETURN_IF_ERROR(add(top1(context)));
  for (const SeriesRow& row : read_series(context.folder, context.model.name)) {
    if (row.how.find("inputs/datasets/") == std::string::npos) continue;
    TESSERA_RETURN_IF_ERROR(add(data_set(context, row)));
  }
  if (const Decoder decode = find_decoder(context.model.name)) {
    TESSERA_RETURN_IF_ERROR(add(detections(context, decode)));
  }
  TESSERA_RETURN_IF_ERROR(add(measures(context)));
  TESSERA_RETURN_IF_ERROR(add(sound_tasks(context)));
  return all;
}

}  // namespace tessera::cases
