// --config and --print-config of master, node and serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

CommandResult with_file(const std::string& verb, const std::string& text,
                        std::vector<std::string> more = {}) {
  prepare();
  write_text(work_folder() + "/c.toml", text);
  more.insert(more.begin(), {verb, "--config", "c.toml"});
  return tessera(more);
}

std::string error_of(const std::string& text) {
  const CommandResult result = with_file("master", text, {"--print-config"});
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_EQ(result.out, "");
  return result.err;
}

TEST(Configuration, AFileGivesOptionsAndTheCommandLineOverridesThem) {
  const CommandResult result = with_file(
      "master",
      "store = \"etcd:h:1\"\nport = 7500\nttl-ms = 900\nwithout-tls = true\nseconds = 2\n",
      {"--port=7600", "--print-config", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json settings = result.json();
  EXPECT_EQ(settings["port"], nlohmann::json({{"value", 7600}, {"from", "command line"}}));
  EXPECT_EQ(settings["ttl-ms"], nlohmann::json({{"value", 900}, {"from", "line 3 of the file"}}));
  EXPECT_EQ(settings["without-tls"]["value"], true);
  EXPECT_EQ(settings["address"], nlohmann::json({{"value", "127.0.0.1"}, {"from", "default"}}));
  EXPECT_EQ(settings["store"]["value"], "etcd:h:1");
  EXPECT_EQ(settings["audit-file"]["value"], nullptr);
}

TEST(Configuration, WhatIsPrintedIsAFileThatSaysTheSame) {
  const CommandResult first =
      with_file("node", "id = \"n1\"\nstore = \"etcd:h:1\"\ncards = 3\n", {"--print-config"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("cards = 3"));
  const CommandResult again = with_file("node", first.out, {"--print-config", "--json"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.json()["cards"]["value"], 3);
  EXPECT_EQ(again.json()["id"]["value"], "n1");
}

TEST(Configuration, WhatTheFileSaysIsDone) {
  const CommandResult result =
      with_file("serve", "model-repository = \"models_absent\"\nhttp-port = 0\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("models_absent"));
}

TEST(Configuration, ErrorsNameFileLineAndWhatIsAllowed) {
  EXPECT_THAT(error_of("store = \"etcd:h:1\"\n\nprot = 7400\n"),
              ::testing::StartsWith("tessera master: c.toml:3: 'prot' is no setting; did you mean "
                                    "'port'? allowed are store, port, "));
  EXPECT_EQ(error_of("port = \"7400\"\n"),
            "tessera master: c.toml:1: 'port' is \"7400\"; allowed is an integer from 0 to 65535   "
            "[invalid argument]\n");
  EXPECT_EQ(error_of("# ports end at 65535\nport = 70000\n"),
            "tessera master: c.toml:2: 'port' is 70000; allowed is an integer from 0 to 65535   "
            "[invalid argument]\n");
  EXPECT_EQ(error_of("without-tls = 1\n"),
            "tessera master: c.toml:1: 'without-tls' is 1; allowed is true or false   [invalid "
            "argument]\n");
  EXPECT_EQ(error_of("address = 5\n"),
            "tessera master: c.toml:1: 'address' is 5; allowed is a text   [invalid argument]\n");
  EXPECT_EQ(error_of("seconds = -1\n"),
            "tessera master: c.toml:1: 'seconds' is -1; allowed is a number from 0 to 1e+09   "
            "[invalid argument]\n");
  EXPECT_THAT(error_of("port = [1, 2]\n"),
              HasSubstr("c.toml:1: 'port' is a list; allowed is an integer"));
  EXPECT_THAT(error_of("[master]\nport = 1\n"), HasSubstr("c.toml:1: 'master' is no setting"));
  EXPECT_THAT(error_of("config = \"d.toml\"\n"), HasSubstr("'config' is no setting"));
  EXPECT_THAT(error_of("port = \n"), HasSubstr("c.toml:1: not TOML: "));
  EXPECT_THAT(tessera({"master", "--config", "absent.toml"}).err,
              HasSubstr("cannot read configuration file 'absent.toml'"));
  const std::string pipe = work_folder() + "/pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(tessera({"master", "--config", "pipe"}).err, HasSubstr("is a pipe or device"));
}

TEST(Configuration, WhatACommandLineLacksIsSaidAsWithoutAFile) {
  EXPECT_THAT(with_file("master", "port = 1\n").err, HasSubstr("--store is required"));
}

}  // namespace
}  // namespace tessera::cli
