#include "dashboard/requests.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace tessera::dashboard {
namespace {

std::string control_mistake(const std::string& body) {
  const Result<ControlRequest> request = parse_control(body);
  return request.ok() ? "" : request.error().to_string();
}

constexpr const char* kAllowed =
    R"(; allowed {"stage": NAME, "threads": N}, {"recording": true or false}, {"choice": NAME, "position": NAME}   [invalid argument])";

TEST(ControlRequests, EachFormIsUnderstood) {
  const auto threads = parse_control(R"({"stage": "pre", "threads": 4})");
  ASSERT_TRUE(threads.ok());
  EXPECT_EQ(std::get<SetThreads>(*threads).stage, "pre");
  EXPECT_EQ(std::get<SetThreads>(*threads).threads, 4);
  EXPECT_FALSE(std::get<SetRecording>(*parse_control(R"({"recording": false})")).on);
  const auto choice = parse_control(R"({"choice": "tune", "position": "auto"})");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(std::get<SetChoice>(*choice).name, "tune");
  EXPECT_EQ(std::get<SetChoice>(*choice).position, "auto");
}

TEST(ControlRequests, MistakesSayWhatIsAllowed) {
  EXPECT_EQ(control_mistake(""), std::string("control: the body is no JSON object") + kAllowed);
  EXPECT_EQ(control_mistake("[1]"), std::string("control: the body is no JSON object") + kAllowed);
  EXPECT_EQ(
      control_mistake("{}"),
      std::string(R"(control: the object has none of "stage", "recording", "choice")") + kAllowed);
  EXPECT_EQ(control_mistake(R"({"stage": 3, "threads": 1})"),
            std::string(R"(control: "stage" is missing or no name)") + kAllowed);
  EXPECT_EQ(control_mistake(R"({"recording": 1})"),
            std::string(R"(control: "recording" is neither true nor false)") + kAllowed);
  EXPECT_EQ(control_mistake(R"({"choice": "tune"})"),
            std::string(R"(control: "position" is missing or no name)") + kAllowed);
  for (const char* threads : {"0", "-1", "65537", "1.5", "\"2\"", "18446744073709551615", "null"}) {
    EXPECT_EQ(control_mistake(std::string(R"({"stage": "pre", "threads": )") + threads + "}"),
              std::string(R"(control: "threads" is missing or no whole number from 1 to 65536)") +
                  kAllowed)
        << threads;
  }
}

TEST(ControlRequests, DeepNestingIsNoTrouble) {
  EXPECT_NE(control_mistake(std::string(60'000, '[')), "");
  EXPECT_NE(
      control_mistake(R"({"stage":)" + std::string(30'000, '[') + std::string(30'000, ']') + "}"),
      "");
}

TEST(HistoryRequests, BordersAndLimitsAreRead) {
  const auto question =
      parse_history({{"from", "5"}, {"to", "900"}, {"events", "7"}, {"bins", "3"}});
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->span.from_ns, 5);
  EXPECT_EQ(question->span.to_ns, 900);
  EXPECT_EQ(question->events_max, 7U);
  EXPECT_EQ(question->bins_max, 3);
}

TEST(HistoryRequests, MistakesNameTheParameterAndTheRange) {
  EXPECT_EQ(parse_history({{"to", "9"}}).error().to_string(),
            "parameter 'from' is missing; allowed a number from 0 to 4611686018427387902   "
            "[invalid argument]");
  EXPECT_EQ(parse_history({{"from", "9"}, {"to", "9"}}).error().to_string(),
            "parameter 'to' is '9'; allowed a number from 10 to 4611686018427387903   "
            "[invalid argument]");
  for (const char* wrong : {"", "x", "1x", " 1", "-1", "1e3", "99999999999999999999"}) {
    EXPECT_FALSE(parse_history({{"from", wrong}, {"to", "9"}}).ok()) << wrong;
  }
  EXPECT_FALSE(parse_history({{"from", "0"}, {"to", "9"}, {"bins", "4001"}}).ok());
  EXPECT_FALSE(parse_history({{"from", "0"}, {"to", "9"}, {"bins", "0"}}).ok());
  EXPECT_FALSE(parse_history({{"from", "0"}, {"to", "9"}, {"events", "100001"}}).ok());
}

TEST(FollowRequests, BeginNowUnlessToldOtherwise) {
  EXPECT_EQ(parse_follow({})->from, UINT64_MAX);
  EXPECT_EQ(parse_follow({{"from", "12"}, {"interval", "50"}})->from, 12U);
  EXPECT_EQ(parse_follow({{"interval", "50"}})->interval_ms, 50);
  EXPECT_FALSE(parse_follow({{"interval", "1"}}).ok());
}

TEST(Hosts, AddressesAndLocalhostAreAllowedOtherNamesAreNot) {
  for (const char* good :
       {"127.0.0.1:8080", "localhost", "LocalHost:1", "[::1]:8080", "10.0.0.7", "Box.example:80"}) {
    EXPECT_TRUE(is_host_allowed(good, "box.example")) << good;
  }
  for (const char* bad : {"", "evil.example", "127.0.0.1.evil.example", "[::1", "[evil]", "1.2.3",
                          "localhost.evil.example:8080", "0.0.0.0:80", "[::]", "127.0.0.1:80@evil",
                          "...", "1.2.3.4.", "localhost:8080:evil", "[::1]evil"}) {
    EXPECT_FALSE(is_host_allowed(bad, "127.0.0.1")) << bad;
  }
  EXPECT_TRUE(is_host_allowed("0.0.0.0:80", "0.0.0.0"));
}

TEST(ListenAddresses, APortAloneIsOnThisMachineOnly) {
  EXPECT_EQ(parse_listen_address("8080")->address, "127.0.0.1");
  EXPECT_EQ(parse_listen_address(":8080")->address, "127.0.0.1");
  EXPECT_EQ(parse_listen_address("0.0.0.0:81")->address, "0.0.0.0");
  EXPECT_EQ(parse_listen_address("0.0.0.0:81")->port, 81);
  EXPECT_EQ(parse_listen_address("[::1]:81")->address, "::1");
  EXPECT_EQ(parse_listen_address("65536").error().to_string(),
            "'65536' is no place to listen at; allowed PORT or ADDRESS:PORT, a port from 0 (any "
            "that is free) to 65535   [invalid argument]");
  for (const char* wrong : {"", "x", "1.2.3.4:", "80x"}) {
    EXPECT_FALSE(parse_listen_address(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace tessera::dashboard
