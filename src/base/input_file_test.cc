// What is read: regular files alone, within their limits, below the folder they must stay in.
#include "base/input_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

namespace tessera {
namespace {

namespace fs = std::filesystem;

class InputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tessera_input_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }
  std::string make(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    EXPECT_TRUE(write_text_file(in_folder(name), text).ok());
    return in_folder(name);
  }
  static std::string words(const std::string& path, const InputOptions& options = {}) {
    const auto text = read_text_file(path, options);
    return text.ok() ? *text : text.error().message;
  }
  std::string below(const std::string& name) const {
    auto file = InputFile::open_below(in_folder("own"), name, "the text's folder");
    if (!file.ok()) return file.error().message;
    const auto bytes = file->read_rest();
    if (!bytes.ok()) return bytes.error().message;
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }

  fs::path folder_;
};

TEST_F(InputFileTest, RegularFileIsReadToItsEnd) {
  const std::string text(200'000, 'x');
  EXPECT_EQ(words(make("a", text)), text);
  EXPECT_EQ(words(make("empty", "")), "");
  fs::create_symlink("a", in_folder("link"));
  EXPECT_EQ(words(in_folder("link")), text);
}

TEST_F(InputFileTest, NothingButARegularFileIsOpened) {
  const std::string pipe = in_folder("pipe"), socket_path = in_folder("socket");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto wrong = [](const std::string& path, const std::string& what) {
    return "reading '" + path + "': it is " + what + ", allowed is a regular file";
  };
  EXPECT_EQ(words(pipe), wrong(pipe, "a pipe"));
  EXPECT_EQ(words(folder_), wrong(folder_, "a folder"));
  EXPECT_EQ(words(socket_path), wrong(socket_path, "a socket"));
  EXPECT_EQ(words("/dev/zero"), wrong("/dev/zero", "a device"));
  EXPECT_EQ(words(in_folder("none")),
            "reading '" + in_folder("none") + "': No such file or directory");
  close(listener);
}

TEST_F(InputFileTest, LargerThanAllowedIsRefusedUnread) {
  const std::string path = make("a", "12345");
  EXPECT_EQ(words(path, {.bytes_max = 5}), "12345");
  EXPECT_EQ(words(path, {.bytes_max = 4}), "reading '" + path + "': it has 5 bytes, allowed are 4");
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 40), 0);  // sparse: takes no room
  EXPECT_EQ(words(path),
            "reading '" + path + "': it has 1099511627776 bytes, allowed are 17179869184");
}

TEST_F(InputFileTest, FileThatChangesWhileItIsReadIsAnError) {
  const std::string path = make("a", "12345");
  auto shorter = InputFile::open(path);
  ASSERT_TRUE(shorter.ok());
  ASSERT_EQ(truncate(path.c_str(), 3), 0);
  EXPECT_EQ(shorter->read_rest().error().message, "it became shorter while it was read");
  auto longer = InputFile::open(path);
  ASSERT_TRUE(longer.ok());
  ASSERT_EQ(truncate(path.c_str(), 9), 0);
  EXPECT_EQ(longer->read_rest().error().message, "it became longer while it was read");
  auto other = InputFile::open(path);
  ASSERT_TRUE(other.ok());
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(other->read_rest().error().message,
            "it changed while it was read; read it again when its writer is done");
}

TEST_F(InputFileTest, OwnDescriptorIsReadWhereAsked) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "through", 7), 7);
  close(ends[1]);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(words(path), "reading '" + path + "': it is a pipe, allowed is a regular file");
  EXPECT_EQ(words(path, {.descriptors = true}), "through");
  close(ends[0]);
  const int zeros = open("/dev/zero", O_RDONLY);
  const std::string endless = "/proc/self/fd/" + std::to_string(zeros);
  EXPECT_EQ(words(endless, {.bytes_max = 100'000, .descriptors = true}),
            "reading '" + endless + "': it has more than 100000 bytes, allowed are 100000");
  close(zeros);
}

TEST_F(InputFileTest, BelowAFolderNothingLeavesIt) {
  make("secret", "secret");
  make("own/a", "a");
  make("own/deep/b", "b");
  fs::create_symlink("deep/../a", in_folder("own/inside"));
  fs::create_symlink("../secret", in_folder("own/outside"));
  fs::create_symlink(in_folder("secret"), in_folder("own/absolute"));
  fs::create_symlink("..", in_folder("own/up"));
  EXPECT_EQ(below("a"), "a");
  EXPECT_EQ(below("deep/b"), "b");
  EXPECT_EQ(below("./deep/./b"), "b");
  EXPECT_EQ(below("inside"), "a");
  EXPECT_EQ(below("outside"), "it is a link that leaves the text's folder");
  EXPECT_EQ(below("absolute"), "it is a link that leaves the text's folder");
  EXPECT_EQ(below("up/secret"), "it is a link that leaves the text's folder");
  EXPECT_EQ(below("../secret"), "it contains '..', allowed is a path inside the text's folder");
  EXPECT_EQ(below("deep/../a"), "it contains '..', allowed is a path inside the text's folder");
  EXPECT_EQ(below(in_folder("own/a")),
            "it is an absolute path, allowed is one inside the text's folder");
  EXPECT_EQ(below(""), "the name is empty");
  EXPECT_EQ(below("none"), "No such file or directory");
  EXPECT_EQ(below("deep"), "it is a folder, allowed is a regular file");
  ASSERT_EQ(mkfifo(in_folder("own/pipe").c_str(), 0600), 0);
  EXPECT_EQ(below("pipe"), "it is a pipe, allowed is a regular file");
}

}  // namespace
}  // namespace tessera
