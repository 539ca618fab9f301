// Where a file is written: regular files are replaced, links stay links, devices stay devices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "program/container.h"

namespace tessera::program {
namespace {

namespace fs = std::filesystem;

class WholeFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tessera_file_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }
  static std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  static std::string error_of(const Status& status) {
    return status.ok() ? "" : status.error().message;
  }

  fs::path folder_;
};

TEST_F(WholeFile, ReplacesWhatWasThere) {
  const std::string path = in_folder("a");
  ASSERT_TRUE(write_file(path, bytes_of("a longer text")).ok());
  ASSERT_TRUE(write_file(path, bytes_of("new")).ok());
  EXPECT_EQ(*read_file(path), bytes_of("new"));
  EXPECT_FALSE(fs::exists(path + ".partial"));
}

TEST_F(WholeFile, LinkStaysALink) {
  const std::string path = in_folder("a");
  ASSERT_TRUE(write_file(path, bytes_of("old")).ok());
  fs::create_symlink("a", in_folder("link"));
  fs::create_symlink("link", in_folder("second"));
  EXPECT_EQ(error_of(write_file(in_folder("second"), bytes_of("new"))), "");
  EXPECT_TRUE(fs::is_symlink(in_folder("link")));
  EXPECT_TRUE(fs::is_symlink(in_folder("second")));
  EXPECT_EQ(*read_file(path), bytes_of("new"));
}

TEST_F(WholeFile, LinkToNothingMakesItsFile) {
  fs::create_symlink("later", in_folder("link"));
  EXPECT_EQ(error_of(write_file(in_folder("link"), bytes_of("new"))), "");
  EXPECT_TRUE(fs::is_symlink(in_folder("link")));
  EXPECT_EQ(*read_file(in_folder("later")), bytes_of("new"));
}

TEST_F(WholeFile, LinkInACircleIsRefused) {
  fs::create_symlink("b", in_folder("a"));
  fs::create_symlink("a", in_folder("b"));
  EXPECT_EQ(error_of(write_file(in_folder("a"), bytes_of("new"))),
            "writing '" + in_folder("a") + "': Too many levels of symbolic links");
}

TEST_F(WholeFile, PipeIsWrittenTo) {
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

TEST_F(WholeFile, FullDeviceIsAnErrorAndStays) {
  // Through a link in a folder of its own: a wrong answer then costs the link, not the device.
  fs::create_symlink("/dev/full", in_folder("full"));
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "this machine has no /dev/full";
  EXPECT_EQ(error_of(write_file(in_folder("full"), bytes_of("new"))),
            "writing '" + in_folder("full") + "': No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(fs::is_symlink(in_folder("full")));
}

TEST_F(WholeFile, FolderIsRefused) {
  EXPECT_EQ(error_of(write_file(folder_.string(), bytes_of("new"))),
            "writing '" + folder_.string() + "': Is a directory");
}

TEST_F(WholeFile, FolderThatIsNotThereIsRefused) {
  const std::string path = in_folder("none/a");
  EXPECT_EQ(error_of(write_file(path, bytes_of("new"))),
            "writing '" + path + "': No such file or directory");
}

}  // namespace
}  // namespace tessera::program
