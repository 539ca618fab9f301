// Models on their stored cases: same top-1 and detections as float32, cosine printed.
//
//   model_cases DATA MODEL... [--arch A] [--device D] [--cosine-min C] [--rtol R --atol A]
//               [--limit N]
//
// A tie is printed as such: float32's probabilities of the two classes differ by less than 0.005.
// Of a detector the objects are compared in place of classes. With --rtol/--atol every value must
// lie within atol + rtol * |expected|. A model that DATA does not have is named. Ends with
// "N passed, N failed"; status 77 (skipped) where DATA is absent, or none of the models is there.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "detections.h"
#include "model_case.h"

namespace {

using namespace tessera;  // a test program

struct Arguments {
  std::string data, arch = "tessera128", device = "host";
  std::vector<std::string> models;
  double cosine_min = 0;
  std::optional<double> relative, absolute;
  std::size_t limit = SIZE_MAX;
};

struct Verdict {
  bool ok = true;
  double cosine = 1, worst = 0;  // worst: largest |error| / (atol + rtol |expected|)
  std::string what;
};

// Two classes whose float32 probabilities differ by less are a tie; either may come first.
constexpr double kTieProbability = 0.005;

std::string detections_text(const std::vector<cases::Detection>& list) {
  std::string text;
  char buffer[96];
  for (const cases::Detection& d : list) {
    std::snprintf(buffer, sizeof buffer, " %zu@%.2f[%.0f %.0f %.0f %.0f]", d.category, d.score,
                  d.left, d.top, d.right, d.bottom);
    text += buffer;
  }
  return text;
}

// The class that the output prefers.
void judge_class(const std::vector<double>& found, const std::vector<double>& expected,
                 Verdict& verdict) {
  const std::size_t mine = cases::argmax(found), stored = cases::argmax(expected);
  // float32 itself hardly prefers one of the two.
  const bool tie = mine != stored && expected[stored] - expected[mine] < kTieProbability;
  verdict.ok = verdict.ok && (mine == stored || tie);
  verdict.what = "top-1 " + std::to_string(mine) + " float32 " + std::to_string(stored);
  if (tie) {
    verdict.what += " (a tie: float32 gives " + std::to_string(expected[stored]) + " and " +
                    std::to_string(expected[mine]) + ")";
  }
}

// One output: its values, and unless the model is a detector its class.
Verdict judge(const Arguments& arguments, const Tensor& found, const Tensor& expected,
              bool is_detector) {
  Verdict verdict;
  const std::vector<double> a = cases::values_of(found), b = cases::values_of(expected);
  verdict.cosine = cases::cosine(a, b);
  verdict.ok = verdict.cosine >= arguments.cosine_min;
  if (!is_detector) judge_class(a, b, verdict);
  if (arguments.relative) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double allowed = arguments.absolute.value_or(0) + *arguments.relative * std::abs(b[i]);
      verdict.worst = std::max(verdict.worst, std::abs(a[i] - b[i]) / allowed);
    }
    verdict.ok = verdict.ok && verdict.worst <= 1;
  }
  return verdict;
}

// Whether a detector's outputs decode to the objects of the stored ones, at least one.
bool same_objects(const cases::Decoder& decode, const Shape& picture,
                  const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                  std::string& what) {
  const auto height = static_cast<double>(picture[2]), width = static_cast<double>(picture[3]);
  const auto mine = cases::suppress(decode(found, width, height));
  const auto stored = cases::suppress(decode(expected, width, height));
  const bool same =
      mine.size() == stored.size() && cases::count_matches(mine, stored) == stored.size();
  what = "detections" + detections_text(mine);
  if (!same) what += " float32" + detections_text(stored);
  return same && !stored.empty();
}

Status run_model(const Arguments& arguments, const std::string& model, int& passed, int& failed) {
  TESSERA_TRY(auto list, cases::read_cases(arguments.data, model));
  list.resize(std::min(list.size(), arguments.limit));
  LoadOptions load;
  load.arch = arguments.arch;
  TESSERA_TRY(const Network network,
              Network::load(arguments.data + "/models/" + model + ".onnx", load));
  SessionOptions options;
  TESSERA_TRY(options.device, device_kind_from_name(arguments.device));
  TESSERA_TRY(Session session, Session::open(network, options));
  std::printf("%s on '%s', %s: %lld nodes on the processor, %lld on the host\n", model.c_str(),
              arguments.device.c_str(), arguments.arch.c_str(),
              static_cast<long long>(network.placement().nodes_on_processor),
              static_cast<long long>(network.placement().nodes_on_host));
  for (const cases::ModelCase& one : list) {
    std::vector<Tensor> inputs;
    for (const auto& row : one.inputs) {
      TESSERA_TRY(Tensor tensor, cases::read_case_input(arguments.data, row));
      inputs.push_back(std::move(tensor));
    }
    TESSERA_TRY(const RunResult run, session.run(inputs));
    std::vector<Tensor> expected;
    for (const auto& row : one.outputs) {
      TESSERA_TRY(Tensor tensor, cases::read_case_output(arguments.data, row));
      expected.push_back(std::move(tensor));
    }
    const cases::Decoder decode = cases::find_decoder(model);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Verdict verdict = judge(arguments, run.outputs[i], expected[i], decode != nullptr);
      if (decode != nullptr && i + 1 == expected.size()) {
        const bool same = same_objects(decode, inputs[0].dims, run.outputs, expected, verdict.what);
        verdict.ok = verdict.ok && same;
      }
      verdict.ok ? ++passed : ++failed;
      std::printf("  %-6s %-28s cosine %.6f  %s", verdict.ok ? "ok" : "FAILED", one.name.c_str(),
                  verdict.cosine, verdict.what.c_str());
      if (arguments.relative) std::printf("  error / allowed %.3f", verdict.worst);
      std::printf("\n");
    }
  }
  return {};
}

bool parse(int argc, char** argv, Arguments& arguments) {
  if (argc < 3) return false;
  arguments.data = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      arguments.models.push_back(word);
      continue;
    }
    if (++i >= argc) return false;
    if (word == "--arch")
      arguments.arch = argv[i];
    else if (word == "--device")
      arguments.device = argv[i];
    else if (word == "--cosine-min")
      arguments.cosine_min = std::stod(argv[i]);
    else if (word == "--rtol")
      arguments.relative = std::stod(argv[i]);
    else if (word == "--atol")
      arguments.absolute = std::stod(argv[i]);
    else if (word == "--limit")
      arguments.limit = std::stoul(argv[i]);
    else
      return false;
  }
  return !arguments.models.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: %s DATA MODEL... [--arch A] [--device D] [--cosine-min C] "
                 "[--rtol R] [--atol A] [--limit N]\n",
                 argv[0]);
    return 2;
  }
  if (!std::filesystem::exists(arguments.data + "/cases/CASES.tsv")) {
    std::printf("skipped: '%s' has no cases/CASES.tsv\n", arguments.data.c_str());
    return 77;
  }
  int passed = 0, failed = 0;
  for (const std::string& model : arguments.models) {
    if (!std::filesystem::exists(arguments.data + "/models/" + model + ".onnx")) {
      std::printf("%s: not there\n", model.c_str());
      continue;
    }
    const Status status = run_model(arguments, model, passed, failed);
    if (status.ok()) continue;
    std::printf("  FAILED %s: %s\n", model.c_str(), status.error().to_string().c_str());
    ++failed;
  }
  if (passed + failed == 0) {
    std::printf("skipped: '%s' has none of the models\n", arguments.data.c_str());
    return 77;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
