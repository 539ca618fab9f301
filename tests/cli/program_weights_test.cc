// Programs and the weights that they leave in their package: `link`, and every verb that takes a program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string refusal_of(const std::vector<std::string>& arguments) {
  const CommandResult result = tessera(arguments);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  return result.err;
}

// in/model.tpkg, out/model.tprog that refers to it, out/whole.tprog with its weights.
class ProgramWeights : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prepare();
    fs::create_directory("in");
    fs::create_directory("out");
    ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "in/model.tpkg"}).status, 0);
    ASSERT_EQ(tessera({"link", "in/model.tpkg", "-o", "out/model.tprog"}).status, 0);
    ASSERT_EQ(tessera({"link", "in/model.tpkg", "--embed-weights", "-o", "out/whole.tprog"}).status,
              0);
    digest_ = tessera({"inspect", "out/model.tprog"}).out;
    digest_ = digest_.substr(digest_.find("SHA-256 ") + 8, 64);
  }
  // Where the package is not where it was.
  class Away {
   public:
    Away() { fs::rename("in/model.tpkg", "in/away.tpkg"); }
    ~Away() { fs::rename("in/away.tpkg", "in/model.tpkg"); }
  };

  static std::string digest_;
};
std::string ProgramWeights::digest_;

TEST_F(ProgramWeights, StayInThePackage) {
  const CommandResult linked = tessera({"link", "in/model.tpkg", "-o", "out/again.tprog"});
  EXPECT_THAT(linked.out, HasSubstr(" dependencies; weights in ../in/model.tpkg\n"));
  EXPECT_THAT(tessera({"inspect", "out/model.tprog"}).out,
              HasSubstr("  weights in '../in/model.tpkg', SHA-256 " + digest_ + "\n"));
  EXPECT_EQ(tessera({"inspect", "out/model.tprog", "--json"}).json()["weights_file"],
            "../in/model.tpkg");
  const std::vector<std::string> run = {"--input", "random:7", "--json"};
  const auto outputs = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "run");
    words.insert(words.end(), run.begin(), run.end());
    const nlohmann::json json = tessera(words).json();
    return std::pair(json["cycles"], json["outputs"]);
  };
  const auto expected = outputs({"small.onnx"});
  EXPECT_EQ(outputs({"out/model.tprog"}), expected);
  EXPECT_EQ(outputs({"out/whole.tprog"}), expected);
  const Away away;
  EXPECT_EQ(outputs({"out/model.tprog", "--weights", "in/away.tpkg"}), expected);
  EXPECT_EQ(outputs({"out/model.tprog", "--weights", "out/whole.tprog"}), expected);
  EXPECT_EQ(outputs({"out/whole.tprog"}), expected);
  EXPECT_EQ(tessera({"inspect", "out/model.tprog"}).status, 0);
}

TEST_F(ProgramWeights, OfAStandAloneProgramAreInIt) {
  const CommandResult linked =
      tessera({"link", "in/model.tpkg", "--embed-weights", "-o", "out/again.tprog", "--json"});
  EXPECT_EQ(linked.json()["weights_file"], "");
  EXPECT_TRUE(read_text("out/again.tprog") == read_text("out/whole.tprog"));
  EXPECT_EQ(refusal_of({"run", "out/whole.tprog", "--weights", "in/model.tpkg"}),
            "tessera run: 'out/whole.tprog' holds its weights and takes none from 'in/model.tpkg'; "
            "leave that out   [invalid argument]\n");
}

TEST_F(ProgramWeights, ThatAreNotFoundAreNamedWithTheWayOut) {
  const Away away;
  const std::string place = "'out/model.tprog' refers to its weights (";
  const std::string found =
      ") in '../in/model.tpkg', which is not there: reading 'in/model.tpkg': No such file or "
      "directory; reading 'out/model.tpkg': No such file or directory; put the file there, name it "
      "(--weights, LoadOptions::weights_file), or link with --embed-weights   [invalid "
      "argument]\n";
  for (const std::string verb : {"run", "disasm", "watch", "bench"}) {
    const std::string error = refusal_of({verb, "out/model.tprog"});
    EXPECT_THAT(error, ::testing::StartsWith("tessera " + verb + ": " + place));
    EXPECT_THAT(error, HasSubstr(" bytes with the SHA-256 " + digest_ + found));
  }
  EXPECT_THAT(refusal_of({"derive", "out/model.tprog", "--to", "onnx", "-o", "never.onnx"}),
              HasSubstr(found));
}

TEST_F(ProgramWeights, OfAnotherPackageAreRefusedByTheirDigest) {
  ASSERT_EQ(
      tessera({"compile", "small.onnx", "--no-weight-compression", "-o", "in/other.tpkg"}).status,
      0);
  const std::string error = refusal_of({"run", "out/model.tprog", "--weights", "in/other.tpkg"});
  EXPECT_THAT(error, HasSubstr("which is not there: 'in/other.tpkg': "));
  EXPECT_THAT(error, HasSubstr("of its section"));
  EXPECT_THAT(refusal_of({"run", "out/model.tprog", "--weights", "small.onnx"}),
              HasSubstr("'small.onnx': does not begin with the magic 'TESSPKG'"));
}

TEST_F(ProgramWeights, AreWrittenOverByNoVerb) {
  EXPECT_EQ(refusal_of({"run", "out/model.tprog", "--trace", "in/model.tpkg"}),
            "tessera run: --trace 'in/model.tpkg' is the same file as the program's weights "
            "'in/model.tpkg', which is read; nothing was done, choose another name   [invalid "
            "argument]\n");
  EXPECT_EQ(refusal_of({"disasm", "out/model.tprog", "-o", "in/model.tpkg"}),
            "tessera disasm: -o 'in/model.tpkg' is the same file as the program's weights "
            "'in/model.tpkg', which is read; nothing was done, choose another name   [invalid "
            "argument]\n");
}

TEST_F(ProgramWeights, ComeIntoTheProgramByItsText) {
  const CommandResult text =
      tessera({"disasm", "out/model.tprog", "--inline", "-o", "out/model.tasm"});
  EXPECT_EQ(text.err,
            "note: 'out/model.tprog' refers to its weights in 'in/model.tpkg'; the text "
            "gives the same program in another file\n");
  ASSERT_EQ(tessera({"asm", "out/model.tasm", "-o", "out/again.tprog"}).status, 0);
  EXPECT_TRUE(read_text("out/again.tprog") == read_text("out/whole.tprog"));
  EXPECT_THAT(
      refusal_of({"run", "out/model.tasm", "--weights", "in/model.tpkg"}),
      HasSubstr("'out/model.tasm' is a program, which is compiled already; --weights is for "
                "models"));
}

}  // namespace
}  // namespace tessera::cli
