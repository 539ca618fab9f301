// Inputs that are no regular files, that have no end, or that lie where they may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "command.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// The place of the input in each command; "@" is the file.
const std::vector<std::vector<std::string>>& commands() {
  static const std::vector<std::vector<std::string>> list = {
      {"run", "@"},
      {"run", "@.tasm"},
      {"run", "small.onnx", "--input", "x=@"},
      {"run", "small.onnx", "--input", "x=@.png"},
      {"run", "small.onnx", "--input", "x=@.pb"},
      {"run", "small.onnx", "--arch", "kinds/@.toml"},
      {"run", "small.onnx", "--weights", "@"},
      {"compile", "@", "-o", "kinds/out"},
      {"link", "@", "-o", "kinds/out"},
      {"inspect", "@"},
      {"asm", "@", "-o", "kinds/out"},
      {"disasm", "@"},
      {"derive", "@", "-o", "kinds/out"},
      {"compare", "@"},
      {"report", "@"},
      {"bench", "@"},
      {"trace", "@", "-o", "kinds/out"},
  };
  return list;
}

// Each command with a file of that kind in place of its input; the names have the endings that some
// commands go by.
void refuses_all(const std::string& kind, void (*make)(const std::string&)) {
  for (const std::vector<std::string>& command : commands()) {
    std::vector<std::string> words = command;
    for (std::string& word : words) {
      const std::size_t at = word.find('@');
      if (at == std::string::npos) continue;
      const std::string path = "kinds/file" + word.substr(at + 1);
      make(path);
      word = (word.starts_with("x=") ? "x=" : "") + path;
    }
    const CommandResult result = tessera(words);
    EXPECT_EQ(result.status, 1) << words[0];
    EXPECT_THAT(result.err, ::testing::HasSubstr("it is " + kind + ", allowed is a regular file"))
        << words[0];
    fs::remove_all("kinds");
  }
}

TEST(InputKinds, PipesAreRefusedAndNotWaitedFor) {
  prepare();
  refuses_all("a pipe", [](const std::string& path) {
    fs::create_directories(fs::path(path).parent_path());
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  });
}

TEST(InputKinds, DevicesWithoutAnEndAreRefused) {
  prepare();
  refuses_all("a device", [](const std::string& path) {
    fs::create_directories(fs::path(path).parent_path());
    fs::create_symlink("/dev/zero", path);
  });
}

TEST(InputKinds, FoldersAreRefused) {
  prepare();
  refuses_all("a folder", [](const std::string& path) { fs::create_directories(path); });
}

TEST(InputKinds, StreamOfADeviceIsRefused) {
  const CommandResult result = tessera(
      {"run", TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm", "--stream", "/dev/zero", "--out", "endless"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            "tessera run: '/dev/zero': it is a device; allowed are a file and a pipe   "
            "[invalid argument]\n");
  EXPECT_FALSE(fs::exists("endless"));
}

TEST(InputKinds, ArchitectureMayComeThroughAPipeOfItsOwnAndHasAnEnd) {
  prepare();
  write_text("own.toml", read_text(TESSERA_PROFILE));
  const CommandResult piped =
      shell("cat own.toml | exec $TESSERA run small.onnx --arch /dev/stdin --json");
  EXPECT_EQ(piped.status, 0) << piped.err;
  const CommandResult endless = shell("exec $TESSERA run small.onnx --arch /dev/stdin </dev/zero");
  EXPECT_EQ(endless.status, 1);
  EXPECT_EQ(endless.err,
            "tessera run: cannot read architecture file '/dev/stdin': it has more than 1048576 "
            "bytes, allowed are 1048576   [invalid argument]\n");
}

TEST(InputKinds, HugeSparseFilesTakeNoMemory) {
  prepare();
  write_text("sparse", "");
  fs::resize_file("sparse", std::uintmax_t{1} << 40);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"link", "sparse", "-o", "out"},
        {"disasm", "sparse"},
        {"inspect", "sparse"},
        {"run", "small.onnx", "--input", "x=sparse"},
        {"asm", "sparse", "-o", "out"},
        {"run", "small.onnx", "--weights", "sparse"}}) {
    const CommandResult result = tessera(words);
    EXPECT_EQ(result.status, 1) << words[0];
    EXPECT_THAT(result.err, ::testing::HasSubstr("bytes, allowed are")) << words[0];
  }
  fs::remove("sparse");
}

TEST(InputKinds, FirmwareTextReadsItsOwnFolderAlone) {
  prepare();
  write_text("secret.bin", std::string(128, '\0'));
  fs::create_directories("texts/below");
  write_text("texts/below/v.bin", std::string(128, '\0'));
  fs::create_symlink("../secret.bin", "texts/link.bin");
  const std::string text = read_text(TESSERA_FIRMWARE_EXAMPLES "/perceptron.tasm");
  const auto error_with = [&](const std::string& file) {
    // A matrix from a file in place of a random one.
    std::string changed = text;
    const std::size_t begin = changed.find("random");
    changed.replace(begin, changed.find('\n', begin) - begin, "file \"" + file + "\" f32");
    write_text("texts/t.tasm", changed);
    return tessera({"asm", "texts/t.tasm", "-o", "texts/out.tprog"}).err;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error_with("../secret.bin"),
              HasSubstr("'../secret.bin': it contains '..', allowed is a path inside the text's "
                        "folder   [invalid model]"));
  EXPECT_THAT(error_with("/etc/passwd"), HasSubstr("'/etc/passwd': it is an absolute path, allowed "
                                                   "is one inside the text's folder"));
  EXPECT_THAT(error_with("link.bin"),
              HasSubstr("'link.bin': it is a link that leaves the text's folder"));
  EXPECT_THAT(error_with("below/v.bin"), ::testing::Not(HasSubstr("text's folder")));
  EXPECT_THAT(error_with("below"), HasSubstr("'below': it is a folder, allowed is a regular file"));
}

}  // namespace
}  // namespace tessera::cli
