// Where a file is written: regular files are replaced as a whole, links stay links, devices stay
// devices, and an error leaves everything as it was.
#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

namespace tessera {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tessera_output_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }
  static std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  std::string text_of(const std::string& name) const { return *read_text_file(in_folder(name)); }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  static std::string error_of(const Status& status) {
    return status.ok() ? "" : status.error().message;
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, ReplacesWhatWasThere) {
  const std::string path = in_folder("a");
  ASSERT_TRUE(write_file(path, bytes_of("a longer text")).ok());
  ASSERT_TRUE(write_file(path, bytes_of("new")).ok());
  EXPECT_EQ(*read_file(path), bytes_of("new"));
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, LinkStaysALink) {
  const std::string path = in_folder("a");
  ASSERT_TRUE(write_file(path, bytes_of("old")).ok());
  fs::create_symlink("a", in_folder("link"));
  fs::create_symlink("link", in_folder("second"));
  EXPECT_EQ(error_of(write_file(in_folder("second"), bytes_of("new"))), "");
  EXPECT_TRUE(fs::is_symlink(in_folder("link")));
  EXPECT_TRUE(fs::is_symlink(in_folder("second")));
  EXPECT_EQ(*read_file(path), bytes_of("new"));
}

TEST_F(OutputFileTest, LinkToNothingMakesItsFile) {
  fs::create_symlink("later", in_folder("link"));
  EXPECT_EQ(error_of(write_file(in_folder("link"), bytes_of("new"))), "");
  EXPECT_TRUE(fs::is_symlink(in_folder("link")));
  EXPECT_EQ(*read_file(in_folder("later")), bytes_of("new"));
}

TEST_F(OutputFileTest, LinkInACircleIsRefused) {
  fs::create_symlink("b", in_folder("a"));
  fs::create_symlink("a", in_folder("b"));
  EXPECT_EQ(error_of(write_file(in_folder("a"), bytes_of("new"))),
            "writing '" + in_folder("a") + "': Too many levels of symbolic links");
}

TEST_F(OutputFileTest, PipeIsWrittenTo) {
  const std::string path = in_folder("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::string text(16, ' ');
  std::thread reader([&] {
    const int pipe = open(path.c_str(), O_RDONLY);
    const ssize_t count = read(pipe, text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    close(pipe);
  });
  EXPECT_EQ(error_of(write_file(path, bytes_of("through"))), "");
  reader.join();
  EXPECT_EQ(text, "through");
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(OutputFileTest, FullDeviceIsAnErrorAndStays) {
  // Through a link in a folder of its own: a wrong answer then costs the link, not the device.
  fs::create_symlink("/dev/full", in_folder("full"));
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "this machine has no /dev/full";
  EXPECT_EQ(error_of(write_file(in_folder("full"), bytes_of("new"))),
            "writing '" + in_folder("full") + "': No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(fs::is_symlink(in_folder("full")));
}

TEST_F(OutputFileTest, FolderIsRefused) {
  EXPECT_EQ(error_of(write_file(folder_.string(), bytes_of("new"))),
            "writing '" + folder_.string() + "': Is a directory");
}

TEST_F(OutputFileTest, FolderThatIsNotThereIsRefused) {
  const std::string path = in_folder("none/a");
  EXPECT_EQ(error_of(write_file(path, bytes_of("new"))),
            "writing '" + path + "': No such file or directory");
}

TEST_F(OutputFileTest, WithoutCommitNothingHasHappened) {
  ASSERT_TRUE(write_text_file(in_folder("a"), "old").ok());
  {
    auto file = OutputFile::create(in_folder("a"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("new").ok());
    EXPECT_EQ(text_of("a"), "old");
    EXPECT_EQ(files(), 2);
  }
  EXPECT_EQ(text_of("a"), "old");
  EXPECT_EQ(files(), 1);
}

// What was planted where a temporary was once expected is neither followed nor touched.
TEST_F(OutputFileTest, PlantedTemporaryIsNotFollowed) {
  ASSERT_TRUE(write_text_file(in_folder("victim"), "victim").ok());
  fs::create_symlink("victim", in_folder("a.partial"));
  fs::create_symlink("victim", in_folder(".a.partial"));
  ASSERT_TRUE(write_text_file(in_folder("a"), "new").ok());
  EXPECT_EQ(text_of("victim"), "victim");
  EXPECT_TRUE(fs::is_symlink(in_folder("a.partial")));
  EXPECT_EQ(text_of("a"), "new");
}

TEST_F(OutputFileTest, ModeIsKeptAndANewOneFollowsTheUmask) {
  const mode_t before = umask(027);
  const auto mode_of = [&](const char* name) {
    struct stat status = {};
    EXPECT_EQ(stat(in_folder(name).c_str(), &status), 0);
    return status.st_mode & 07777;
  };
  ASSERT_TRUE(write_text_file(in_folder("a"), "old").ok());
  EXPECT_EQ(mode_of("a"), 0640u);
  ASSERT_EQ(chmod(in_folder("a").c_str(), 0707), 0);
  ASSERT_TRUE(write_text_file(in_folder("a"), "new").ok());
  EXPECT_EQ(mode_of("a"), 0707u);
  umask(before);
}

TEST_F(OutputFileTest, OtherHardLinksKeepTheOldContents) {
  ASSERT_TRUE(write_text_file(in_folder("a"), "old").ok());
  fs::create_hard_link(in_folder("a"), in_folder("b"));
  ASSERT_TRUE(write_text_file(in_folder("a"), "new").ok());
  EXPECT_EQ(text_of("b"), "old");
  EXPECT_EQ(text_of("a"), "new");
}

TEST_F(OutputFileTest, DescriptorIsWrittenToAsItIs) {
  const int file = open(in_folder("a").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(write(file, "before ", 7), 7);
  EXPECT_EQ(error_of(write_text_file("/dev/fd/" + std::to_string(file), "here ")), "");
  ASSERT_EQ(write(file, "behind", 6), 6);
  close(file);
  EXPECT_EQ(text_of("a"), "before here behind");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(error_of(write_text_file("/proc/self/fd/" + std::to_string(ends[1]), "through")), "");
  char text[8] = {};
  EXPECT_EQ(read(ends[0], text, 7), 7);
  EXPECT_STREQ(text, "through");
  close(ends[0]);
  // No signal ends this process.
  const std::string path = "/dev/fd/" + std::to_string(ends[1]);
  EXPECT_EQ(error_of(write_text_file(path, "x")), "writing '" + path + "': Broken pipe");
  close(ends[1]);
}

// In a process of its own, which the limit is for.
TEST_F(OutputFileTest, LimitOfAFilesSizeIsAnErrorAndLeavesTheTarget) {
  ASSERT_TRUE(write_text_file(in_folder("a"), "old").ok());
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string path = in_folder("a");
    const std::string error = error_of(write_text_file(path, std::string(10'000, 'x')));
    _exit(error == "writing '" + path + "': File too large" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(text_of("a"), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, FilesThatBelongTogetherAreReplacedTogetherOrNotAtAll) {
  ASSERT_TRUE(write_text_file(in_folder("a"), "old a").ok());
  std::string error;
  {
    OutputFiles files;
    for (const char* name : {"a", "new", "b"}) {
      ASSERT_EQ(error_of(files.add(in_folder(name), "contents")), "");
    }
    // Comes in between: a file cannot take its place.
    fs::create_directories(in_folder("b/c"));
    error = error_of(files.commit());
  }
  EXPECT_EQ(error, "writing '" + in_folder("b") + "': Is a directory");
  EXPECT_EQ(text_of("a"), "old a");
  EXPECT_FALSE(fs::exists(in_folder("new")));
  EXPECT_TRUE(fs::is_directory(in_folder("b/c")));
  EXPECT_EQ(files(), 2);
}

TEST_F(OutputFileTest, ManyFilesTogetherTakeFewDescriptors) {
  OutputFiles files;
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(error_of(files.add(in_folder(std::to_string(i)), "contents")), "") << i;
  }
  const auto open_files =
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  EXPECT_LT(open_files, 50);
  EXPECT_EQ(error_of(files.commit()), "");
  EXPECT_EQ(this->files(), 300);
}

TEST_F(OutputFileTest, PublishedFileGrowsUnderItsName) {
  ASSERT_TRUE(write_text_file(in_folder("a"), "old").ok());
  auto file = OutputFile::create(in_folder("a"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->publish().ok());
  ASSERT_TRUE(file->write("first ").ok());
  EXPECT_EQ(text_of("a"), "first ");
  ASSERT_TRUE(file->write("second").ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(text_of("a"), "first second");
  EXPECT_EQ(files(), 1);
}

// Processes that write one name at the same time: all succeed, and the last one's file is whole.
TEST_F(OutputFileTest, WritersOfOneNameDoNotDisturbEachOther) {
  const std::string path = in_folder("a");
  constexpr int kRounds = 150, kWriters = 3;
  for (int round = 0; round < kRounds; ++round) {
    pid_t children[kWriters];
    for (int writer = 0; writer < kWriters; ++writer) {
      children[writer] = fork();
      if (children[writer] != 0) continue;
      const std::string text(40'000 + 7'000 * static_cast<std::size_t>(writer),
                             static_cast<char>('a' + writer));
      _exit(write_text_file(path, text).ok() ? 0 : 1);
    }
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_EQ(status, 0) << round;
    }
    const std::string text = text_of("a");
    const std::size_t expected = 40'000 + 7'000 * static_cast<std::size_t>(text[0] - 'a');
    ASSERT_EQ(text, std::string(expected, text[0])) << round;
    ASSERT_EQ(files(), 1) << round;
  }
}

TEST(FileIdentity, OneFileUnderManyNamesIsOne) {
  std::string name = (fs::temp_directory_path() / "tessera_identity_XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path folder = name;
  ASSERT_TRUE(write_text_file(folder / "a", "a").ok());
  ASSERT_TRUE(write_text_file(folder / "b", "b").ok());
  fs::create_symlink("a", folder / "link");
  fs::create_hard_link(folder / "a", folder / "hard");
  fs::create_symlink("later", folder / "dangling");
  fs::create_symlink(folder, folder / "self");
  const auto id = [&](const char* path) { return file_identity(folder / path); };
  EXPECT_EQ(id("a"), id("link"));
  EXPECT_EQ(id("a"), id("hard"));
  EXPECT_EQ(id("a"), id("self/./a"));
  EXPECT_NE(id("a"), id("b"));
  EXPECT_EQ(id("later"), id("dangling"));
  EXPECT_EQ(id("later"), id("self/later"));
  EXPECT_NE(id("later"), id("other"));
  EXPECT_EQ(id("none/x"), id("none/../none/x"));
  EXPECT_FALSE(file_identity("/dev/null").has_value());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tessera
