// Programs and the software derived from them, everywhere: the virtual processor, the host device,
// ONNX Runtime, PyTorch and compiled C++ give the same bits. `make check-derived` runs all of it,
// ctest a part.
//
//   check_derived [--quick] [--data FOLDER] [--text-models FOLDER] [--only WORD]
//
// Names the stored models that are not there. Ends with 1 at a difference, which it names by model,
// runtime, layer and element; with 77 (skipped) where ONNX Runtime is absent.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "derived_case.h"
#include "host/executor.h"
#include "tools/derived/check.h"
#include "tools/terminal/console.h"

namespace tessera::derived {
namespace {

using tools::DerivedRuntime;

constexpr int kSeeds = 300;
constexpr int kBatch = 50;  // random programs to a process
// Inputs of firmware and of random programs that run under every level and thread count of ONNX
// Runtime; each further one runs under one of these in turn. Models take all of them under all.
constexpr std::size_t kWholeVectors = 1;
constexpr std::int64_t kValuesWanted = 10'000'000;

struct Arguments {
  bool quick = false;
  std::string data = TESSERA_TEST_DATA, text_models, only;
};

// Programs that share the processes they run in. With a name they share a row of the table, too.
struct Group {
  std::string name;
  std::vector<Recipe> recipes;
  std::size_t whole_vectors = SIZE_MAX;
};

struct Totals {
  std::int64_t values = 0, runs = 0, compared = 0, programs = 0;

  void add(const Totals& other) {
    values += other.values;
    runs += other.runs;
    compared += other.compared;
    programs += other.programs;
  }
};

class Check {
 public:
  // Makes the programs of a group and runs them everywhere.
  Result<std::vector<Case>> run(const Group& group) {
    std::vector<Case> cases;
    std::vector<tools::Verification> found(group.recipes.size());
    for (const Recipe& recipe : group.recipes) {
      auto made = make_case(recipe);
      if (!made.ok()) {
        return Error{made.error().code, fmt::format("{}: {}", recipe.name, made.error().message)};
      }
      cases.push_back(*std::move(made));
      TESSERA_RETURN_IF_ERROR(check_host(cases.back()));
    }
    for (const DerivedRuntime runtime :
         {DerivedRuntime::kOnnxRuntime, DerivedRuntime::kPython, DerivedRuntime::kCpp}) {
      TESSERA_RETURN_IF_ERROR(check_runtime(runtime, group, cases, found));
    }
    Totals all;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Totals own = {
          .values = cases[i].values, .compared = found[i].values_compared(), .programs = 1};
      for (const tools::RuntimeTally& tally : found[i].tallies) own.runs += tally.runs;
      if (group.name.empty()) print(cases[i].recipe.name, cases[i].vectors.size(), own);
      all.add(own);
    }
    if (!group.name.empty()) print(group.name, cases[0].vectors.size(), all);
    totals_.add(all);
    std::fflush(stdout);
    return cases;
  }

  const Totals& totals() const { return totals_; }

 private:
  static void print(const std::string& name, std::size_t vectors, const Totals& totals) {
    fmt::print("{:<36} {:>8} {:>6} {:>8} {:>12} {:>12}  equal\n", name, totals.programs, vectors,
               totals.runs, tools::with_separators(totals.values),
               tools::with_separators(totals.compared));
  }

  static Status differs(const Case& made, const std::string& where) {
    return Error{ErrorCode::kInternal, fmt::format("{}: {}", made.recipe.name, where)};
  }

  static Status check_host(const Case& made) {
    TESSERA_TRY(const auto host, host::make_host_executor(made.graph));
    for (const tools::GoldenVector& vector : made.vectors) {
      TESSERA_TRY(const std::vector<Tensor> outputs, host->run(vector.inputs));
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == vector.outputs[i]) continue;
        return differs(made, fmt::format("host and virtual processor differ in output '{}' for {}",
                                         made.software.outputs[i].name, vector.source));
      }
    }
    return {};
  }

  static Status check_runtime(DerivedRuntime runtime, const Group& group,
                              const std::vector<Case>& cases,
                              std::vector<tools::Verification>& found) {
    const tools::DerivedRuntimeOptions options = {.onnxruntime = "",
                                                  .whole_vectors = group.whole_vectors};
    std::vector<tools::DerivedProgram> programs;
    for (const Case& made : cases) {
      programs.push_back({made.recipe.name, &made.software, made.vectors});
    }
    TESSERA_TRY(const auto runs, tools::run_derived(runtime, programs, options));
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const tools::DerivedPair pair = {cases[i].recipe.name, cases[i].graph, &cases[i].software};
      TESSERA_RETURN_IF_ERROR(
          tools::verify_runs(pair, cases[i].vectors, runtime, runs[i], options, found[i]));
      if (found[i].first) return differs(cases[i], tools::difference_text(*found[i].first));
    }
    return {};
  }

  Totals totals_;
};

// ---- What is checked

std::vector<Group> firmware_examples(const Arguments& arguments) {
  Group group{"", {}, kWholeVectors};
  for (const char* name :
       {"lstm", "gru", "conv1x1", "conv3x3", "conv3x3_taps", "perceptron", "attention"}) {
    group.recipes.push_back({.name = std::string("firmware ") + name,
                             .source = std::string(TESSERA_FIRMWARE_EXAMPLES "/") + name + ".tasm",
                             .arch = "brainwave",
                             .vectors = arguments.quick ? 2 : 200});
  }
  return {group};
}

std::vector<Group> stored_models(const Arguments& arguments) {
  struct Row {
    const char* name;
    int vectors;
    bool small;  // also in the quick check, all in one process
  };
  const Row rows[] = {{"mobilenet_v1_224_fp32", 6, false},
                      {"dtln_1", 12, true},
                      {"gtcrn_simple", 2, false},
                      {"vit_cifar10_ibp_3_3_8", 12, true},
                      {"silero_vad_16k_op15", 12, true},
                      {"mlperf_tiny_resnet8_int8_qdq", 12, true},
                      {"mobilenet_v2_224_uint8_qdq", 6, false}};
  Group small;
  std::vector<Group> groups;
  for (const Row& row : rows) {
    Recipe recipe = {.name = row.name,
                     .source = arguments.data + "/models/" + row.name + ".onnx",
                     .arch = "tessera128",
                     .vectors = arguments.quick ? 2 : row.vectors,
                     .cases = arguments.data,
                     .model = row.name};
    if (!std::filesystem::exists(recipe.source)) {
      if (row.small || !arguments.quick) fmt::print("{:<36} not there\n", row.name);
      continue;
    }
    if (row.small) {
      small.recipes.push_back(std::move(recipe));
    } else if (!arguments.quick) {
      groups.push_back({"", {std::move(recipe)}});
    }
  }
  if (!small.recipes.empty()) groups.insert(groups.begin(), std::move(small));
  return groups;
}

Recipe text_model(const Arguments& arguments, const char* name, const char* file, const char* shape,
                  int vectors) {
  Recipe recipe = {.name = name,
                   .source = arguments.text_models + "/" + file,
                   .arch = "tessera128",
                   .shapes = {std::string("x=") + shape},
                   .vectors = vectors};
  for (const char* picture : {"skimage_coffee.png", "skimage_astronaut.png", "coral_owl.jpg"}) {
    const std::string path = arguments.data + "/inputs/images/" + picture;
    if (std::filesystem::exists(path)) recipe.pictures.push_back(path);
  }
  return recipe;
}

std::vector<Group> text_models(const Arguments& arguments) {
  if (arguments.text_models.empty()) return {};
  std::vector<Group> groups = {
      {"",
       {text_model(arguments, "text direction", "ch_ppocr_mobile_v2.0_cls_infer.onnx", "1x3x48x192",
                   arguments.quick ? 2 : 12)}}};
  if (arguments.quick) return groups;
  groups.push_back(
      {"",
       {text_model(arguments, "text detection", "ch_PP-OCRv4_det_infer.onnx", "1x3x352x352", 3)}});
  groups.push_back(
      {"",
       {text_model(arguments, "text recognition", "ch_PP-OCRv4_rec_infer.onnx", "1x3x48x320", 3)}});
  return groups;
}

// Every fourth random program is compiled from a random graph, the others are firmware.
bool is_model(int seed) { return seed % 4 == 0; }

std::vector<Group> random_programs(const Arguments& arguments) {
  std::vector<Group> groups;
  const int seeds = arguments.quick ? 20 : kSeeds;
  for (int first = 1; first <= seeds; first += kBatch) {
    const int last = std::min(first + kBatch - 1, seeds);
    Group group{fmt::format("random programs {}..{}", first, last), {}, kWholeVectors};
    for (int seed = first; seed <= last; ++seed) {
      const char* const profiles[] = {"tessera128", "brainwave", "pe128x64"};
      group.recipes.push_back(
          {.name = fmt::format("random program {}", seed),
           .source = fmt::format("{}:{}", is_model(seed) ? "graph" : "chains", seed),
           .arch = profiles[seed % 3],
           .vectors = arguments.quick ? 3 : 20});
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

// ---- One model on several processors

// Cores with equal N first, then with others. Without the stored model, that of the texts'
// direction.
std::vector<Recipe> core_recipes(const Arguments& arguments) {
  Recipe recipe;
  recipe.formats_of_tessera128 = true;
  recipe.source = arguments.data + "/models/mlperf_tiny_resnet8_fp32.onnx";
  std::string model = "resnet8";
  if (std::filesystem::exists(recipe.source)) {
    recipe.cases = arguments.data;
    recipe.model = "mlperf_tiny_resnet8_fp32";
  } else {
    recipe.source = arguments.text_models + "/ch_ppocr_mobile_v2.0_cls_infer.onnx";
    recipe.shapes = {"x=1x3x48x192"};
    model = "text direction";
  }
  const auto on = [&](const char* name, const char* arch) {
    Recipe row = recipe;
    row.name = model + " on " + name;
    row.arch = arch;
    return row;
  };
  std::vector<Recipe> recipes = {on("tessera128", "tessera128"),
                                 on("pe128x64", "pe128x64"),
                                 on("edge", "edge"),
                                 on("tessera128, small tiles", "tessera128"),
                                 on("edge, N = 64", "edge"),
                                 on("edge, N = 32", "edge")};
  recipes[3].tile_budget_bytes = 4096;
  recipes[4].native_dimension = 64;
  recipes[5].native_dimension = 32;
  return recipes;
}

bool same_outputs(const Case& a, const Case& b) {
  for (std::size_t v = 0; v < a.vectors.size(); ++v) {
    if (!(a.vectors[v].outputs == b.vectors[v].outputs)) return false;
  }
  return true;
}

Status check_cores(const Arguments& arguments, Check& check) {
  TESSERA_TRY(const std::vector<Case> cases, check.run({"", core_recipes(arguments)}));
  for (std::size_t i = 1; i < cases.size(); ++i) {
    const bool other = cases[i].recipe.native_dimension > 0;
    for (std::size_t k = other ? i - 1 : 0; k < (other ? i : 1); ++k) {
      const bool same = same_outputs(cases[k], cases[i]);
      fmt::print("  {} and {}: {} bits\n", cases[k].recipe.name, cases[i].recipe.name,
                 same ? "equal" : "different");
      if (same == !other) continue;
      return Error{ErrorCode::kInternal,
                   fmt::format("{} and {} have {} bits", cases[k].recipe.name, cases[i].recipe.name,
                               same ? "equal" : "different")};
    }
  }
  return {};
}

Status run(const Arguments& arguments) {
  Check check;
  fmt::print("{:<36} {:>8} {:>6} {:>8} {:>12} {:>12}\n", "program", "programs", "inputs", "runs",
             "values", "compared");
  for (const auto& list : {firmware_examples(arguments), stored_models(arguments),
                           text_models(arguments), random_programs(arguments)}) {
    for (const Group& group : list) {
      const std::string& name = group.name.empty() ? group.recipes[0].name : group.name;
      if (name.find(arguments.only) == std::string::npos) continue;
      TESSERA_TRY(const std::vector<Case> cases, check.run(group));
    }
  }
  if (std::string("cores").find(arguments.only) != std::string::npos) {
    TESSERA_RETURN_IF_ERROR(check_cores(arguments, check));
  }
  const Totals& totals = check.totals();
  if (totals.programs == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--only '{}': no program is called that", arguments.only)};
  }
  fmt::print(
      "{} programs, {} output values, all equal in every bit: virtual processor, host, ONNX\n"
      "Runtime (4 levels, 1 and 2 threads), PyTorch, C++.\n"
      "An output value counts once for each input that its program ran on, however many runtimes\n"
      "computed it: the derived software computed {} values in {} runs. Models run under all "
      "eight\n"
      "configurations of ONNX Runtime; of other programs the first input does, each further one\n"
      "under one in turn.\n",
      totals.programs, tools::with_separators(totals.values),
      tools::with_separators(totals.compared), tools::with_separators(totals.runs));
  if (arguments.quick || !arguments.only.empty() || totals.values >= kValuesWanted) return {};
  return Error{ErrorCode::kInternal, fmt::format("{} values are fewer than {}", totals.values,
                                                 tools::with_separators(kValuesWanted))};
}

bool parse(int count, char** words, Arguments& arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--quick") {
      arguments.quick = true;
    } else if (i + 1 < count && word == "--data") {
      arguments.data = words[++i];
    } else if (i + 1 < count && word == "--text-models") {
      arguments.text_models = words[++i];
    } else if (i + 1 < count && word == "--only") {
      arguments.only = words[++i];
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace tessera::derived

int main(int count, char** words) {
  using namespace tessera;
  derived::Arguments arguments;
  if (!derived::parse(count, words, arguments)) {
    fmt::print(stderr,
               "usage: check_derived [--quick] [--data FOLDER] [--text-models FOLDER] "
               "[--only WORD]\n");
    return 2;
  }
  const Status status = derived::run(arguments);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.error().to_string());
  return status.error().code == ErrorCode::kUnavailable ? 77 : 1;
}
