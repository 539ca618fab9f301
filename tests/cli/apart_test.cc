// No verb writes over what it reads, nor one output over another, whatever the file is called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRead =
    ", which is read; nothing was done, choose another name   "
    "[invalid argument]\n";
constexpr const char* kWritten =
    ", which is written, too; nothing was done, choose another name   [invalid argument]\n";

// apart/external.onnx, whose first weights lie in apart/external.bin.
void write_external_model() {
  auto builder = small_model(false);
  onnx::TensorProto& weights = *builder.proto().mutable_graph()->mutable_initializer(0);
  write_text("apart/external.bin", weights.raw_data());
  weights.clear_raw_data();
  weights.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& entry = *weights.add_external_data();
  entry.set_key("location");
  entry.set_value("external.bin");
  write_text("apart/external.onnx", builder.bytes());
}

class Apart : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prepare();
    fs::create_directory("apart");
    ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "apart/small.tpkg"}).status, 0);
    ASSERT_EQ(tessera({"link", "apart/small.tpkg", "-o", "apart/small.tprog"}).status, 0);
    ASSERT_EQ(tessera({"run", "small.onnx", "--output", "apart"}).status, 0);
    ASSERT_EQ(
        tessera({"asm", TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm", "-o", "apart/lstm.tprog"}).status,
        0);
    ASSERT_EQ(tessera({"disasm", "apart/lstm.tprog", "-o", "apart/lstm.tasm"}).status, 0);
    write_text("apart/s", std::string(3 * 128, '\0'));
    write_text("apart/run.jsonl", R"({"kind":"end of events","events":0,"lost":0})"
                                  "\n");
    write_text("apart/x.npy", "not read before the outputs are looked at");
  }

  // `file` is what it was, and the error is `words` and what stands behind it.
  static void refused(const std::vector<std::string>& arguments, const std::string& file,
                      const std::string& words) {
    const std::string before = read_text(file);
    const CommandResult result = tessera(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err, "tessera " + arguments[0] + ": " + words);
    EXPECT_TRUE(read_text(file) == before) << file << " has changed";
  }
};

TEST_F(Apart, EveryVerbLeavesItsInputAlone) {
  refused({"run", "apart/lstm.tprog", "--stream", "apart/s", "--out", "apart/s"}, "apart/s",
          std::string("--out 'apart/s' is the same file as --stream 'apart/s'") + kRead);
  refused({"run", "apart/lstm.tprog", "--stream", "apart/s", "--out", "apart/lstm.tprog"},
          "apart/lstm.tprog",
          std::string("--out 'apart/lstm.tprog' is the same file as the model "
                      "'apart/lstm.tprog'") +
              kRead);
  refused({"run", "small.onnx", "--trace", "small.onnx"}, "small.onnx",
          std::string("--trace 'small.onnx' is the same file as the model 'small.onnx'") + kRead);
  refused({"run", "small.onnx", "--input", "x=apart/x.npy", "--html", "apart/x.npy"}, "apart/x.npy",
          std::string("--html 'apart/x.npy' is the same file as --input 'apart/x.npy'") + kRead);
  refused({"compile", "small.onnx", "-o", "small.onnx"}, "small.onnx",
          std::string("-o 'small.onnx' is the same file as the model 'small.onnx'") + kRead);
  refused({"link", "apart/small.tpkg", "-o", "apart/small.tpkg"}, "apart/small.tpkg",
          std::string("-o 'apart/small.tpkg' is the same file as the package "
                      "'apart/small.tpkg'") +
              kRead);
  refused(
      {"asm", "apart/lstm.tasm", "-o", "apart/lstm.tasm"}, "apart/lstm.tasm",
      std::string("-o 'apart/lstm.tasm' is the same file as the text 'apart/lstm.tasm'") + kRead);
  refused({"disasm", "apart/small.tprog", "-o", "apart/small.tprog"}, "apart/small.tprog",
          std::string("-o 'apart/small.tprog' is the same file as the program "
                      "'apart/small.tprog'") +
              kRead);
  refused({"derive", "apart/small.tprog", "-o", "apart/small.tprog"}, "apart/small.tprog",
          std::string("-o 'apart/small.tprog' is the same file as the model "
                      "'apart/small.tprog'") +
              kRead);
  refused({"report", "small.onnx", "--html", "small.onnx"}, "small.onnx",
          std::string("--html 'small.onnx' is the same file as the model 'small.onnx'") + kRead);
  refused({"watch", "small.onnx", "--record", "small.onnx", "--http", "0"}, "small.onnx",
          std::string("--record 'small.onnx' is the same file as the model 'small.onnx'") + kRead);
  refused({"trace", "apart/run.jsonl", "-o", "apart/run.jsonl"}, "apart/run.jsonl",
          std::string("-o 'apart/run.jsonl' is the same file as the recording "
                      "'apart/run.jsonl'") +
              kRead);
}

TEST_F(Apart, OtherSpellingsAndLinksAreSeenThrough) {
  fs::create_symlink("s", "apart/link");
  fs::create_hard_link("apart/s", "apart/hard");
  for (const std::string name : {"./apart/../apart/s", "apart/link", "apart/hard"}) {
    refused({"run", "apart/lstm.tprog", "--stream", "apart/s", "--out", name}, "apart/s",
            "--out '" + name + "' is the same file as --stream 'apart/s'" + kRead);
  }
  const std::string whole = fs::absolute("apart/s").string();
  refused({"run", "apart/lstm.tprog", "--stream", whole, "--out", "apart/s"}, "apart/s",
          "--out 'apart/s' is the same file as --stream '" + whole + "'" + kRead);
}

TEST_F(Apart, ArchitecturesAndFilesThatOthersNameCount) {
  write_text("apart/own.toml", read_text(TESSERA_PROFILE));
  refused({"compile", "small.onnx", "--arch", "apart/own.toml", "-o", "apart/own.toml"},
          "apart/own.toml",
          std::string("-o 'apart/own.toml' is the same file as --arch 'apart/own.toml'") + kRead);
  refused({"asm", "apart/lstm.tasm", "-o", "apart/lstm.weights"}, "apart/lstm.weights",
          std::string("-o 'apart/lstm.weights' is the same file as a file of the text "
                      "'apart/lstm.weights'") +
              kRead);
  refused({"run", "apart/lstm.tasm", "--trace", "apart/lstm.weights"}, "apart/lstm.weights",
          std::string("--trace 'apart/lstm.weights' is the same file as a file of the text "
                      "'apart/lstm.weights'") +
              kRead);
}

TEST_F(Apart, ExternalDataOfAModelCounts) {
  write_external_model();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"compile", "apart/external.onnx", "-o"},
        {"run", "apart/external.onnx", "--trace"},
        {"report", "apart/external.onnx", "--html"},
        {"report", "apart/external.onnx", "--min-buffer", "--html"},
        {"derive", "apart/external.onnx", "-o"}}) {
    std::vector<std::string> words = arguments;
    words.emplace_back("apart/external.bin");
    refused(words, "apart/external.bin",
            arguments.back() +
                " 'apart/external.bin' is the same file as the model's data 'apart/external.bin'" +
                kRead);
  }
}

TEST_F(Apart, OutputsAreDifferentFiles) {
  refused({"run", "small.onnx", "--trace", "apart/s", "--html", "./apart/s"}, "apart/s",
          std::string("--html './apart/s' is the same file as --trace 'apart/s'") + kWritten);
  const CommandResult absent =
      tessera({"run", "small.onnx", "--trace", "apart/new", "--html", "./apart/new"});
  EXPECT_EQ(absent.err, std::string("tessera run: --html './apart/new' is the same file as "
                                    "--trace 'apart/new'") +
                            kWritten);
  EXPECT_FALSE(fs::exists("apart/new"));
  const CommandResult weights =
      tessera({"derive", "small.onnx", "--to", "pytorch", "-o", "apart/d.weights"});
  EXPECT_EQ(weights.err,
            std::string("tessera derive: the weights' file 'apart/d.weights' is the same file as "
                        "-o 'apart/d.weights'") +
                kWritten);
  const CommandResult text = tessera({"disasm", "apart/lstm.tprog", "-o", "apart/other.weights"});
  EXPECT_EQ(text.err,
            std::string("tessera disasm: the weights' file 'apart/other.weights' is the same file "
                        "as -o 'apart/other.weights'") +
                kWritten);
}

TEST_F(Apart, FilesOfAFolderCount) {
  fs::copy_file("small.onnx", "apart/y.onnx");
  fs::remove("apart/y.npy");
  fs::create_hard_link("apart/y.onnx", "apart/y.npy");
  refused({"run", "apart/y.onnx", "--output", "apart"}, "apart/y.onnx",
          std::string("output 'y' in 'apart/y.npy' is the same file as the model "
                      "'apart/y.onnx'") +
              kRead);
  fs::copy_file("small.onnx", "apart/golden.json");
  refused({"derive", "apart/golden.json", "-o", "apart/g.onnx", "--golden", "apart"},
          "apart/golden.json",
          std::string("golden file 'apart/golden.json' is the same file as the model "
                      "'apart/golden.json'") +
              kRead);
}

TEST_F(Apart, AGoldenFileThatIsTheOutputIsFoundBeforeAnythingIsWritten) {
  ASSERT_EQ(shell("mkdir -p apart/both && echo precious >apart/both/golden.json").status, 0);
  const CommandResult result =
      tessera({"derive", "small.onnx", "-o", "apart/both/golden.json", "--golden", "apart/both"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, ::testing::HasSubstr("is the same file as -o 'apart/both/golden.json'"));
  EXPECT_EQ(read_text("apart/both/golden.json"), "precious\n");
  EXPECT_FALSE(fs::exists("apart/both/vector0_input0.bin"));
}

// It would be written over in place.
TEST_F(Apart, AFileThatAnotherProcessHasOpenIsNoOutput) {
  ASSERT_EQ(shell("echo precious >apart/open").status, 0);
  const CommandResult result = shell(
      "exec 7<>apart/open; $TESSERA compile small.onnx -o /proc/$$/fd/7; echo $? >apart/status");
  EXPECT_THAT(result.err, ::testing::HasSubstr("it is a file that another process has open"));
  EXPECT_EQ(read_text("apart/status"), "1\n");
  EXPECT_EQ(read_text("apart/open"), "precious\n");
}

TEST_F(Apart, StandardOutputIsNotTheInput) {
  const std::string before = read_text("apart/small.tprog");
  const CommandResult result = shell("exec $TESSERA disasm apart/small.tprog >>apart/small.tprog");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            std::string("tessera disasm: standard output is the same file as the program "
                        "'apart/small.tprog'") +
                kRead);
  EXPECT_TRUE(read_text("apart/small.tprog") == before);
}

}  // namespace
}  // namespace tessera::cli
