// Every call that an output is made of fails once, and from some call on: whatever the command was
// to write, it then ends with status 1 and names the file, and all files are what they were. Where
// only a write is short, nothing is to be seen of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "base/test_volume.h"
#include "command.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Output {
  std::string name;
  std::vector<std::string> arguments;  // "@" stands for the folder of outputs
  std::vector<std::string> files;      // in that folder
  // Takes its name when it begins; what was there is gone, whatever happens then.
  bool recording = false;
};

void PrintTo(const Output& output, std::ostream* out) { *out << output.name; }

const std::vector<Output>& outputs() {
  static const std::vector<Output> list = {
      {"package", {"compile", "small.onnx", "-o", "@/p.tpkg"}, {"p.tpkg"}},
      {"passes",
       {"compile", "relu.onnx", "-o", "/dev/null", "--dump-passes", "@"},
       {"00_lower.txt"}},
      {"program", {"link", "in/small.tpkg", "-o", "@/p.tprog"}, {"p.tprog"}},
      {"assembled", {"asm", "in/small.tasm", "-o", "@/p.tprog"}, {"p.tprog"}},
      {"text_and_weights", {"disasm", "in/wide.tprog", "-o", "@/p.tasm"}, {"p.tasm", "p.weights"}},
      {"tensors", {"run", "small.onnx", "--output", "@"}, {"y.npy"}},
      {"timeline", {"run", "small.onnx", "--trace", "@/t.json"}, {"t.json"}},
      {"report", {"report", "small.onnx", "--html", "@/r.html"}, {"r.html"}},
      {"buffer_page", {"report", "relu.onnx", "--min-buffer", "--html", "@/r.html"}, {"r.html"}},
      {"format_page",
       {"report", "relu.onnx", "--formats", "--only", "f16", "--html", "@/r.html"},
       {"r.html"}},
      {"derived_onnx", {"derive", "relu.onnx", "-o", "@/d.onnx"}, {"d.onnx"}},
      {"derived_cpp", {"derive", "relu.onnx", "--to", "cpp", "-o", "@/d.cpp"}, {"d.cpp"}},
      {"derived_pytorch",
       {"derive", "small.onnx", "--to", "pytorch", "-o", "@/d.py"},
       {"d.py", "d.weights"}},
      {"golden_vectors",
       {"derive", "relu.onnx", "-o", "/dev/null", "--golden", "@", "--verify", "2"},
       {"golden.json", "vector0_input0.bin", "vector0_output0.bin", "vector1_input0.bin",
        "vector1_output0.bin"}},
      {"network", {"zoo", "mobilenet_v1", "-o", "@/n.onnx"}, {"n.onnx"}},
      {"trace", {"trace", "in/run.jsonl", "-o", "@/t.json"}, {"t.json"}},
      {"vectors",
       {"run", "in/stream.tasm", "--stream", "in/vectors.f16", "--out", "@/v.f16"},
       {"v.f16"}},
      {"recording",
       {"watch", "relu.onnx", "--device", "host", "--http", "0", "--seconds", "0.05", "--record",
        "@/r.jsonl"},
       {"r.jsonl"},
       true},
  };
  return list;
}

struct Fault {
  const char* how = "once";
  int error = ENOSPC;
};

class FailingWrites : public ::testing::TestWithParam<Output> {
 protected:
  static void SetUpTestSuite() {
    prepare();
    fs::create_directory("in");
    ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "in/small.tpkg"}).status, 0);
    ASSERT_EQ(tessera({"link", "in/small.tpkg", "-o", "in/small.tprog"}).status, 0);
    ASSERT_EQ(tessera({"disasm", "in/small.tprog", "-o", "in/small.tasm"}).status, 0);
    ASSERT_EQ(
        tessera({"asm", TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm", "-o", "in/wide.tprog"}).status, 0);
    write_text("in/stream.tasm", read_text(TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm"));
    write_text("in/vectors.f16", std::string(3 * 128, '\0'));
    write_text("in/run.jsonl", R"({"kind":"end of events","events":0,"lost":0})"
                               "\n");
  }

  void SetUp() override {
#ifdef TESSERA_SANITIZED
    GTEST_SKIP() << "a sanitizer stands in front of the C library itself";
#endif
    fs::create_directory(folder());
    for (const std::string& file : GetParam().files) write_text(folder() + "/" + file, kFormer);
  }
  void TearDown() override { fs::remove_all(folder()); }

  static std::string folder() { return work_folder() + "/out"; }

  CommandResult run(int at, const Fault& fault) {
    std::vector<std::string> arguments = GetParam().arguments;
    for (std::string& word : arguments) {
      if (word.starts_with('@')) word = folder() + word.substr(1);
    }
    fs::remove("told");
    const std::string calls = "LD_PRELOAD=" TESSERA_FAIL_CALLS;
    return tessera(arguments, {calls, "TESSERA_FAIL_FOLDER=" + folder(),
                               "TESSERA_FAIL_AT=" + std::to_string(at),
                               std::string("TESSERA_FAIL_HOW=") + fault.how,
                               "TESSERA_FAIL_ERROR=" + std::to_string(fault.error),
                               "TESSERA_FAIL_TOLD=" + work_folder() + "/told"});
  }

  // Whether a call failed in the run before.
  static bool told() { return fs::exists("told"); }

  void expect_as_before(bool whole_or_former) const {
    std::size_t known = 0;
    for (const auto& entry : fs::directory_iterator(folder())) {
      EXPECT_THAT(entry.path().string(), ::testing::Not(::testing::HasSubstr(".partial")));
    }
    for (const std::string& file : GetParam().files) {
      const std::string text = read_text(folder() + "/" + file);
      const bool whole = whole_or_former && text == whole_[known++];
      EXPECT_TRUE(GetParam().recording || whole || text == kFormer) << file;
    }
  }

  void expect_failure(int at, const CommandResult& result) const {
    EXPECT_EQ(result.status, 1) << "call " << at << "\n" << result.out << result.err;
    EXPECT_THAT(result.err, ::testing::HasSubstr("writing '" + folder() + "/")) << "call " << at;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  // What each file is after a run in which nothing failed.
  void read_whole() {
    for (const std::string& file : GetParam().files) {
      whole_.push_back(read_text(folder() + "/" + file));
    }
  }

  static constexpr const char* kFormer = "former contents";
  std::vector<std::string> whole_;
};

TEST_P(FailingWrites, OneCallThatFailsLeavesEverythingAsItWas) {
  if (GetParam().recording &&
      tessera({"watch", "relu.onnx", "--seconds", "0.01", "--http", "0"}).err.find("without npm") !=
          std::string::npos) {
    GTEST_SKIP() << "built without the page";
  }
  const Fault faults[] = {{"once", ENOSPC}, {"once", EIO}};
  for (const Fault& fault : std::span(faults).first(visit_one_in(2, 2) == 1 ? 2 : 1)) {
    int at = 1;
    for (;; ++at) {
      ASSERT_LT(at, 1000);
      const CommandResult result = run(at, fault);
      if (!told()) {
        EXPECT_EQ(result.status, 0) << result.err;
        break;
      }
      expect_failure(at, result);
      expect_as_before(false);
      if (HasFailure()) return;
    }
    // At the least: open, mode, write, fsync, close, rename, fsync of the folder.
    EXPECT_GE(at, 8);
    TearDown();
    SetUp();
  }
}

// A disk that stays broken may keep files from being taken back; each is whole all the same.
TEST_P(FailingWrites, CallsThatFailFromOneOnLeaveWholeFiles) {
  if (GetParam().recording) GTEST_SKIP() << "see above";
  ASSERT_EQ(run(0, {}).status, 0);
  read_whole();
  TearDown();
  SetUp();
  const int step = visit_one_in(6, 6);
  for (int at = 1;; at += step) {
    ASSERT_LT(at, 1000);
    const CommandResult result = run(at, {"on", EIO});
    if (!told()) break;
    expect_failure(at, result);
    expect_as_before(true);
    if (HasFailure()) return;
  }
}

TEST_P(FailingWrites, ShortWritesAreGoneOnWith) {
  if (GetParam().recording) GTEST_SKIP() << "no two recordings are the same";
  ASSERT_EQ(run(0, {}).status, 0);
  read_whole();
  const int step = visit_one_in(6, 6);
  for (int at = 1;; at += step) {
    const CommandResult result = run(at, {"short", 0});
    ASSERT_EQ(result.status, 0) << result.err;
    if (!told()) break;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      ASSERT_EQ(read_text(folder() + "/" + GetParam().files[i]), whole_[i]) << at;
    }
  }
}

// Ctrl-C. What was being written keeps a name of its own; none that was asked for is a part of anything.
TEST_P(FailingWrites, AnInterruptLeavesFilesWholeOrAsTheyWere) {
  if (GetParam().recording) GTEST_SKIP() << "it ends as it would have without";
  ASSERT_EQ(run(0, {}).status, 0);
  read_whole();
  TearDown();
  SetUp();
  const int step = visit_one_in(3, 3);
  for (int at = 1;; at += step) {
    ASSERT_LT(at, 1000);
    const CommandResult result = run(at, {"interrupt", 0});
    if (!told()) break;
    EXPECT_EQ(result.status, 128 + SIGINT) << "call " << at << "\n" << result.err;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      const std::string text = read_text(folder() + "/" + GetParam().files[i]);
      EXPECT_TRUE(text == whole_[i] || text == kFormer) << GetParam().files[i] << ", call " << at;
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, FailingWrites, ::testing::ValuesIn(outputs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::cli
