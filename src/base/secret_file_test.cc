// Which modes a file of a secret may have.
#include "base/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() { std::ofstream(path_) << "a secret"; }
  ~SecretFile() override { std::filesystem::remove(path_); }
  bool is_taken(mode_t mode) const {
    EXPECT_EQ(::chmod(path_.c_str(), mode), 0);
    return check_secret_file(path_).ok();
  }
  const std::string path_ = ::testing::TempDir() + "tessera_secret_" + std::to_string(::getpid());
};

TEST_F(SecretFile, IsItsOwnersAlone) {
  for (const mode_t mode : {0600, 0400}) EXPECT_TRUE(is_taken(mode)) << mode;
  for (const mode_t mode : {0644, 0604, 0620, 0660, 0602, 0777})
    EXPECT_FALSE(is_taken(mode)) << mode;
}

TEST_F(SecretFile, OfRootMayBeReadByItsGroup) {
  EXPECT_EQ(is_taken(0640), ::geteuid() == 0);
  if (::geteuid() != 0) GTEST_SKIP() << "files of somebody else are made by root alone";
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(is_taken(0640));
  EXPECT_TRUE(is_taken(0600));
}

TEST_F(SecretFile, SaysWhatToDo) {
  ASSERT_FALSE(is_taken(0644));
  const std::string error = check_secret_file(path_).error().to_string();
  EXPECT_NE(error.find("'" + path_ +
                       "' has secrets and others may read or change it (mode 0644); "
                       "chmod 600 it"),
            std::string::npos)
      << error;
  EXPECT_TRUE(check_secret_file(path_ + "_that_is_not_there").ok());
}

}  // namespace
}  // namespace tessera
