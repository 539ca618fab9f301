#include "serve/access.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "serve/shared_regions.h"

namespace tessera::serve {
namespace {

using ::testing::HasSubstr;

const std::string kFile = R"({"tenants": [
    {"name": "one", "token": "0123456789abcdef", "models": ["ocr*", "exact"], "requests_at_once": 2},
    {"name": "root", "token": "fedcba9876543210", "operator": true, "requests_per_second": 1}]})";

std::string refusal(const std::string& text) {
  const auto access = Access::parse(text);
  return access.ok() ? "" : access.error().message;
}

TEST(Access, KnowsTenantsByTheirTokens) {
  std::vector<std::string> audit;
  const auto access =
      Access::parse(kFile, [&](const std::string& line) { audit.push_back(line); }).value();
  const Client one = access->client_of("Bearer 0123456789abcdef", "a").value();
  EXPECT_EQ(one.name(), "one");
  EXPECT_TRUE(one.may_use("ocr_small"));
  EXPECT_TRUE(one.may_use("exact"));
  EXPECT_FALSE(one.may_use("exactly"));
  EXPECT_FALSE(one.is_operator());
  EXPECT_TRUE(access->client_of("Bearer fedcba9876543210", "a").value().is_operator());
  EXPECT_EQ(access->client_of("bearer 0123456789abcdef", "a").value().name(), "one");
  EXPECT_EQ(access->client_of("BEARER 0123456789abcdef", "a").value().name(), "one");
  EXPECT_FALSE(access->client_of("Bearer 0123456789abcde", "infer").ok());
  EXPECT_FALSE(access->client_of("0123456789abcdef", "infer").ok());
  EXPECT_FALSE(access->client_of("", "infer").ok());
  ASSERT_EQ(audit.size(), 3u);
  EXPECT_THAT(audit[0], HasSubstr(R"("refused":"infer")"));
  EXPECT_THAT(audit[0], HasSubstr(R"("why":"unknown token")"));
}

TEST(Access, HoldsATenantToItsLimits) {
  const auto access = Access::parse(kFile).value();
  const Client one = access->client_of("Bearer 0123456789abcdef", "a").value();
  EXPECT_FALSE(one.enter());
  EXPECT_FALSE(one.enter());
  const auto third = one.enter();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->problem, Problem::kQuota);
  EXPECT_THAT(third->message, HasSubstr("has 2 requests on their way"));
  one.leave();
  EXPECT_FALSE(one.enter());
  const Client root = access->client_of("Bearer fedcba9876543210", "a").value();
  EXPECT_FALSE(root.enter());
  EXPECT_THAT(root.enter()->message, HasSubstr("may make 1 requests a second"));
}

TEST(Access, CountsWhatTenantsAskForAndShowsThemTheirOwn) {
  const auto access = Access::parse(kFile).value();
  const Client one = access->client_of("Bearer 0123456789abcdef", "a").value();
  const Client root = access->client_of("Bearer fedcba9876543210", "a").value();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one.enter().has_value(), i == 2);
  one.note_answer(std::chrono::nanoseconds(700), std::chrono::nanoseconds(300));
  one.leave();
  EXPECT_EQ(access->statistics(one).at("one").pending, 1);
  one.note_failure();
  one.leave();
  const auto own = access->statistics(one);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own.at("one").answered, 1);
  EXPECT_EQ(own.at("one").failed, 1);
  EXPECT_EQ(own.at("one").refused, 1);
  EXPECT_EQ(own.at("one").pending, 0);
  EXPECT_EQ(own.at("one").time.count(), 700);
  EXPECT_EQ(own.at("one").device.count(), 300);
  EXPECT_EQ(access->statistics(root).size(), 2u);
  EXPECT_EQ(access->statistics({}).size(), 2u);  // at the port for metrics alone
}

TEST(Access, SharesMemoryByTheBeginningOfItsKey) {
  const auto access = Access::parse(R"({"tenants": [
      {"name": "one", "token": "0123456789abcdef", "shared_memory": ["/one_", "also_"]},
      {"name": "all", "token": "0123456789abcdeg", "shared_memory": ["/"]},
      {"name": "none", "token": "0123456789abcdeh"}]})")
                          .value();
  const Client one = access->client_of("Bearer 0123456789abcdef", "a").value();
  for (const char* const key : {"/one_", "one_x", "/also_x"}) EXPECT_FALSE(one.may_share(key));
  for (const char* const key : {"/one", "/two_", "", "//one_x"}) {
    const auto refused = one.may_share(key);
    ASSERT_TRUE(refused) << key;
    EXPECT_EQ(refused->problem, Problem::kForbidden);
  }
  EXPECT_FALSE(access->client_of("Bearer 0123456789abcdeg", "a")->may_share("/two_"));
  EXPECT_TRUE(access->client_of("Bearer 0123456789abcdeh", "a")->may_share("/two_"));
  EXPECT_FALSE(Client().may_share("/two_"));
}

TEST(Access, SaysWhatIsWrongWithTheFile) {
  EXPECT_THAT(refusal("["), HasSubstr("an object with a list 'tenants'"));
  EXPECT_THAT(refusal(R"({"tenants": []})"), HasSubstr("not empty"));
  EXPECT_THAT(refusal(R"({"tenants": [{"name": "a", "token": "short"}]})"),
              HasSubstr("tenant 1: 'token' is to have at least 16 bytes"));
  EXPECT_THAT(refusal(R"({"tenants": [{"name": "a", "shared_memory": [""]}]})"),
              HasSubstr("'shared_memory' is to be a list of beginnings of keys"));
  EXPECT_THAT(refusal(R"({"tenants": [{"token": "0123456789abcdef"}]})"),
              HasSubstr("tenant 1 has no 'name'"));
  EXPECT_THAT(refusal(R"({"tenants": [{"name": "a", "colour": 1}]})"),
              HasSubstr("there is no key 'colour'"));
  EXPECT_THAT(refusal(R"({"tenants": [{"name": "a", "models": "x"}]})"),
              HasSubstr("'models' is to be a list"));
  EXPECT_THAT(refusal(R"({"tenants": [{"name": "a", "token": "0123456789abcdef"},
                                      {"name": "b", "token": "0123456789abcdef"}]})"),
              HasSubstr("tenant 2 has the name or the token of another one"));
}

TEST(Access, RefusesAFileThatOthersMayRead) {
  const std::string path = ::testing::TempDir() + "access_test.json";
  std::ofstream(path) << kFile;
  chmod(path.c_str(), 0644);
  const auto open = Access::read(path);
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.error().message, HasSubstr("chmod 600"));
  chmod(path.c_str(), 0600);
  EXPECT_TRUE(Access::read(path).ok());
  std::filesystem::remove(path);
}

class RegionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    key_ = "/tessera_regions_test_" + std::to_string(getpid());
    memory_ = shm_open(key_.c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(memory_, 0);
    ASSERT_EQ(ftruncate(memory_, 100), 0);
  }
  void TearDown() override {
    close(memory_);
    shm_unlink(key_.c_str());
  }
  std::string refusal(const RegionStatus& region) {
    const Status added = regions_.add("", region);
    return added.ok() ? "" : added.error().message;
  }
  std::string key_;
  int memory_ = -1;
  SharedRegions regions_;
};

TEST_F(RegionsTest, AreWithinTheirMemory) {
  EXPECT_EQ(refusal({"all", key_, 0, 100}), "");
  EXPECT_EQ(refusal({"part", key_, 60, 40}), "");
  EXPECT_THAT(refusal({"long", key_, 60, 41}), HasSubstr("not within the 100 bytes of"));
  EXPECT_THAT(refusal({"far", key_, ~std::uint64_t{0}, 2}), HasSubstr("not within"));
  EXPECT_THAT(refusal({"none", key_, 0, 0}), HasSubstr("'byte_size' is 0"));
  EXPECT_THAT(refusal({"all", key_, 0, 100}), HasSubstr("is registered already"));
  EXPECT_THAT(refusal({"path", "/etc/passwd", 0, 1}), HasSubstr("no key of shared memory"));
  EXPECT_THAT(refusal({"path", "../x", 0, 1}), HasSubstr("no key of shared memory"));
  EXPECT_THAT(refusal({"gone", "/tessera_nothing_here", 0, 1}), HasSubstr("cannot open"));
  EXPECT_EQ(regions_.list("").size(), 2u);
}

TEST_F(RegionsTest, BelongToTheirTenant) {
  ASSERT_TRUE(regions_.add("one", {"r", key_, 0, 10}).ok());
  EXPECT_TRUE(regions_.find("one", "r").ok());
  EXPECT_FALSE(regions_.find("two", "r").ok());
  EXPECT_FALSE(regions_.remove("two", "r").ok());
  EXPECT_TRUE(regions_.remove("two", "").ok());
  EXPECT_EQ(regions_.list("one").size(), 1u);
  EXPECT_TRUE(regions_.remove("one", "").ok());
  EXPECT_FALSE(regions_.find("one", "r").ok());
}

TEST_F(RegionsTest, AreNotAllOneTenants) {
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(regions_.add("one", {std::to_string(i), key_, 0, 1}).ok());
  }
  EXPECT_THAT(regions_.add("one", {"more", key_, 0, 1}).error().message,
              HasSubstr("tenant 'one' has 64 regions"));
  EXPECT_TRUE(regions_.add("two", {"more", key_, 0, 1}).ok());
  EXPECT_TRUE(regions_.remove("one", "7").ok());
  EXPECT_TRUE(regions_.add("one", {"more", key_, 0, 1}).ok());
}

TEST_F(RegionsTest, AreReadAndWrittenWithinTheirBounds) {
  ASSERT_TRUE(regions_.add("", {"r", key_, 10, 20}).ok());
  const auto region = regions_.find("", "r").value();
  std::vector<std::byte> bytes(4, std::byte{7});
  EXPECT_TRUE(region->write(16, bytes).ok());
  EXPECT_FALSE(region->write(17, bytes).ok());
  EXPECT_FALSE(region->read(~std::uint64_t{0}, bytes).ok());
  char found = 0;
  ASSERT_EQ(pread(memory_, &found, 1, 26), 1);
  EXPECT_EQ(found, 7);
  // Taken away, and made shorter: errors.
  ASSERT_TRUE(regions_.remove("", "r").ok());
  EXPECT_TRUE(region->read(16, bytes).ok());
  ASSERT_EQ(ftruncate(memory_, 28), 0);
  EXPECT_THAT(region->read(16, bytes).error().message, HasSubstr("made shorter"));
  EXPECT_THAT(region->write(16, bytes).error().message, HasSubstr("made shorter"));
}

}  // namespace
}  // namespace tessera::serve
