// Programs of several versions in one cluster: the same major version is enough, another one is told of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <nlohmann/json.hpp>
#include <optional>

#include "cluster/message.h"
#include "cluster/messenger.h"
#include "local_cluster.h"
#include "transport/transport.h"

namespace tessera::testing {
namespace {

using cluster::MessageHeader;
using cluster::MessageKind;
using ::testing::HasSubstr;

constexpr std::size_t kMajorAt = 4;
constexpr std::chrono::minutes kLimit{1};
const std::string kStatus = R"({"call":"status"})";

// What came, as bytes.
struct Arrived {
  std::vector<std::byte> header;
  std::string last_piece;  // empty: no pieces
  MessageHeader parsed() const { return cluster::parse_header(header, 0, {}).value(); }
};

// A peer that writes its headers itself.
class RawPeer {
 public:
  explicit RawPeer(const std::string& endpoint) {
    transport::Handlers handlers;
    handlers.on_message = [this](transport::Connection&, transport::IncomingMessage message) {
      const std::lock_guard lock(mutex_);
      Arrived arrived{.header = {message.header.begin(), message.header.end()}, .last_piece = {}};
      if (!message.buffers.empty()) {
        const auto piece = message.buffers.back();
        arrived.last_piece.assign(reinterpret_cast<const char*>(piece.data()), piece.size());
      }
      arrived_ = std::move(arrived);
      changed_.notify_all();
    };
    connection_ = transport_
                      ->connect(transport::parse_address("tcp:" + endpoint).value(),
                                std::move(handlers), kLimit)
                      .value();
  }
  Arrived ask(std::vector<std::byte> header) {
    const Status sent =
        connection_->send({.header = std::move(header), .buffers = {}, .done = {}}, kLimit);
    EXPECT_TRUE(sent.ok()) << sent.error().message;
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLimit, [this] { return arrived_.has_value(); }));
    return arrived_.value_or(Arrived{});
  }

 private:
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::optional<Arrived> arrived_;
  const std::unique_ptr<transport::Transport> transport_ = transport::Transport::create({}).value();
  std::shared_ptr<transport::Connection> connection_;  // shared with the transport
};

std::vector<std::byte> status_header(std::uint16_t minor) {
  return cluster::encode_header({.id = 7, .text = kStatus, .minor = minor});
}

TEST(ClusterProtocol, OlderAndNewerMinorVersionsAreAnswered) {
  const LocalCluster cluster;
  cluster.wait_for_nodes(1);
  for (const int minor : {0, cluster::kProtocolMinor + 1, 65535}) {
    RawPeer peer(cluster.master->endpoint());
    const Arrived answer = peer.ask(status_header(static_cast<std::uint16_t>(minor)));
    const MessageHeader header = answer.parsed();
    EXPECT_EQ(header.kind, MessageKind::kReply) << header.text;
    EXPECT_EQ(header.id, 7u);
    EXPECT_EQ(header.minor, cluster::kProtocolMinor);
    EXPECT_EQ(nlohmann::json::parse(header.text)["nodes"].size(), 1u);
  }
}

TEST(ClusterProtocol, AnotherMajorVersionIsRefusedByMasterAndNodeWithBothVersions) {
  const LocalCluster cluster;
  for (const std::string& endpoint : {cluster.master->endpoint(), cluster.nodes[0]->endpoint()}) {
    RawPeer peer(endpoint);
    std::vector<std::byte> bytes = status_header(0);
    bytes[kMajorAt] = std::byte{2};
    const Arrived answer = peer.ask(bytes);
    const MessageHeader header = answer.parsed();
    EXPECT_EQ(header.kind, MessageKind::kError);
    EXPECT_EQ(header.id, 7u);
    const Error error = cluster::parse_error_text(std::string(header.text));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_EQ(error.message,
              "the peer speaks version 2 of the cluster's protocol, this program 1.1; versions "
              "understand each other "
              "where the number before the point is the same: give both the same release "
              "(docs/runbook.md says in "
              "which order)");
  }
}

TEST(ClusterProtocol, ACallToAProgramOfAnotherMajorVersionSaysSo) {
  const auto other = transport::Transport::create({}).value();
  const auto listener =
      other
          ->listen(transport::parse_address("tcp:127.0.0.1:0").value(),
                   [](const auto&) {
                     transport::Handlers handlers;
                     handlers.on_message = [](transport::Connection& connection,
                                              transport::IncomingMessage message) {
                       std::vector<std::byte> header(message.header.begin(), message.header.end());
                       header[kMajorAt] = std::byte{3};
                       (void)connection.send(
                           {.header = std::move(header), .buffers = {}, .done = {}}, kLimit);
                     };
                     return handlers;
                   })
          .value();
  const std::string endpoint = "127.0.0.1:" + std::to_string(listener->address().port);
  const auto messenger = cluster::Messenger::create().value();
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  const auto channel = messenger->open(endpoint, deadline);
  ASSERT_TRUE(channel.ok()) << channel.error().message;
  for (int i = 0; i < 2; ++i) {  // each call, also once the connection has ended
    const auto answer = (*channel)->call(kStatus, {}, deadline);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(
        answer.error().message,
        HasSubstr("'" + endpoint +
                  "': the peer speaks version 3 of the cluster's protocol, this program 1.1"));
  }
}

// Says a text of so many bytes, and one piece.
class LongAnswer : public cluster::Responder {
 public:
  explicit LongAnswer(std::size_t bytes) : text_(bytes, 'x') {}
  const std::string& text() const { return text_; }

 private:
  Result<cluster::Reply> handle(cluster::Request /*request*/) override {
    return cluster::Reply{text_, {std::vector<std::byte>(5, std::byte{9})}};
  }
  const std::string text_;
};

TEST(ClusterProtocol, AnAnswersTextMayBeLongerThanAHeader) {
  const std::size_t in_header = cluster::MessageLimits{}.text_bytes;
  for (const std::size_t bytes : {in_header, in_header + 1, std::size_t{5} << 20}) {
    LongAnswer responder(bytes);
    const auto messenger = cluster::Messenger::create().value();
    const auto server = messenger->serve({.responder = &responder}).value();
    const std::string endpoint = "127.0.0.1:" + std::to_string(server->port());
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    const auto channel = messenger->open(endpoint, deadline).value();
    const auto answer = channel->call("{}", {}, deadline);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_TRUE(answer->text == responder.text()) << answer->text.size();
    ASSERT_EQ(answer->body.pieces.size(), 1u);
    EXPECT_EQ(answer->body.pieces[0].size(), 5u);
    if (bytes <= in_header) continue;
    RawPeer peer(endpoint);
    const Arrived arrived = peer.ask(status_header(1));
    EXPECT_TRUE(arrived.parsed().text_is_piece);
    EXPECT_EQ(arrived.last_piece.size(), bytes);
  }
}

TEST(ClusterProtocol, TheTextOfAnAnswerHasALimit) {
  LongAnswer responder(cluster::kTextPieceBytesMax + 1);
  const auto messenger = cluster::Messenger::create().value();
  const auto server = messenger->serve({.responder = &responder}).value();
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  const auto channel =
      messenger->open("127.0.0.1:" + std::to_string(server->port()), deadline).value();
  const auto answer = channel->call("{}", {}, deadline);
  ASSERT_FALSE(answer.ok());
  EXPECT_THAT(answer.error().message, HasSubstr("more than 67108864 bytes"));
}

}  // namespace
}  // namespace tessera::testing
