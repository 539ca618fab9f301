#include "http/parser.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::http {
namespace {

constexpr Limits kLimits = {
    .target_bytes = 100, .header_bytes = 1000, .header_fields = 8, .body_bytes = 50};

std::string refused(std::string_view bytes) {
  RequestParser parser(kLimits);
  if (parser.feed(bytes) != ParseState::kRefused) return "not refused";
  const Response refusal = parser.refusal();
  EXPECT_TRUE(refusal.closes);
  return std::to_string(refusal.status) + " " + std::get<std::string>(refusal.body);
}

// The same, whatever pieces it comes in.
Request parsed(std::string_view bytes, std::size_t piece) {
  RequestParser parser(kLimits);
  ParseState state = ParseState::kMore;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    EXPECT_EQ(state, ParseState::kMore) << bytes.substr(0, at);
    state = parser.feed(bytes.substr(at, piece));
  }
  EXPECT_EQ(state, ParseState::kComplete) << bytes;
  return state == ParseState::kComplete ? parser.take() : Request{};
}

TEST(RequestParsing, APlainRequestHasItsPartsInWhateverPiecesItComes) {
  const std::string text =
      "POST /control?a=1&b HTTP/1.1\r\nHost: x:1\r\nContent-Type: t\r\nContent-Length: "
      "5\r\n\r\nhello";
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 1000U}) {
    const Request request = parsed(text, piece);
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/control");
    EXPECT_EQ(request.query, "a=1&b");
    EXPECT_EQ(request.host, "x:1");
    EXPECT_EQ(request.field("content-type"), "t");
    EXPECT_EQ(request.body, "hello");
    EXPECT_TRUE(request.keep_alive);
  }
}

TEST(RequestParsing, ChunksAreJoined) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3;note=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: thrown away\r\n\r\n";
  for (const std::size_t piece : {1U, 2U, 5U, 1000U}) {
    const Request request = parsed(text, piece);
    EXPECT_EQ(request.body, "abcde");
    EXPECT_FALSE(request.field("Trailer").has_value());
  }
}

TEST(RequestParsing, RequestsMayFollowEachOther) {
  RequestParser parser(kLimits);
  ASSERT_EQ(parser.feed("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET /2 HTTP/1.0\r\n\r\nGET"),
            ParseState::kComplete);
  EXPECT_EQ(parser.take().path, "/1");
  ASSERT_EQ(parser.feed({}), ParseState::kComplete);
  const Request second = parser.take();
  EXPECT_EQ(second.path, "/2");
  EXPECT_EQ(second.version, 10);
  EXPECT_FALSE(second.keep_alive);
  EXPECT_EQ(parser.feed({}), ParseState::kMore);
  EXPECT_TRUE(parser.has_begun());
}

TEST(RequestParsing, AWholeAddressNamesItsHost) {
  const Request request = parsed("GET http://a.example:8/b?c HTTP/1.1\r\nHost: other\r\n\r\n", 1);
  EXPECT_EQ(request.host, "a.example:8");
  EXPECT_EQ(request.path, "/b");
  EXPECT_EQ(request.query, "c");
  EXPECT_EQ(parsed("GET http://a.example HTTP/1.1\r\nHost: a\r\n\r\n", 9).path, "/");
}

TEST(RequestParsing, WhoExpectsToContinueIsSeen) {
  RequestParser parser(kLimits);
  parser.feed("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(parser.wants_continue());
  EXPECT_EQ(parser.feed("ab"), ParseState::kComplete);
  EXPECT_FALSE(parser.wants_continue());
}

TEST(RequestLimits, ALongAddressIsRefused) {
  const std::string message =
      "414 {\"error\":\"the address has more than the 100 bytes that are allowed\"}\n";
  EXPECT_EQ(refused("GET /" + std::string(100, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"), message);
  EXPECT_EQ(parsed("GET /" + std::string(99, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 1).path.size(),
            100U);
  EXPECT_EQ(refused("GET /" + std::string(200, 'a')), message) << "also without an end";
}

TEST(RequestLimits, ALongHeadIsRefusedHoweverItComes) {
  const std::string message =
      "431 {\"error\":\"the head has more than the 1000 bytes that are allowed\"}\n";
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(1000, 'a')), message);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(600, 'a') +
                    "\r\nB: " + std::string(600, 'b') + "\r\n\r\n"),
            message);
  // In lines that are whole each time, of which the parser keeps nothing.
  RequestParser parser(kLimits);
  ParseState state = parser.feed("GET / HTTP/1.1\r\nHost: x\r\n");
  for (int i = 0; i < 6 && state == ParseState::kMore; ++i) {
    state = parser.feed("A: " + std::string(190, 'a') + "\r\n");
  }
  ASSERT_EQ(state, ParseState::kRefused);
  EXPECT_EQ(parser.refusal().status, 431);
}

TEST(RequestLimits, ManyFieldsAreRefused) {
  std::string text = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 7; ++i) text += "A: b\r\n";
  EXPECT_EQ(parsed(text + "\r\n", 3).fields.size(), 8U);
  EXPECT_EQ(refused(text + "A: b\r\n\r\n"),
            "431 {\"error\":\"there are more than 8 header fields\"}\n");
  EXPECT_EQ(refused("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" +
                    text.substr(16) + text.substr(25) + "\r\n"),
            "431 {\"error\":\"there are more than 8 header fields\"}\n")
      << "trailers count";
}

TEST(RequestLimits, ALongBodyIsRefusedBeforeItComes) {
  const std::string message = "413 {\"error\":\"the body is longer than 50 bytes\"}\n";
  EXPECT_EQ(refused("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 51\r\n\r\n"), message);
  const std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(refused(chunked + "33\r\n"), message) << "one chunk of 51";
  EXPECT_EQ(refused(chunked + "ffffffffffffffff\r\n"), message);
  std::string many = chunked;
  for (int i = 0; i < 5; ++i) many += "a\r\n0123456789\r\n";
  EXPECT_EQ(parsed(many + "0\r\n\r\n", 11).body.size(), 50U);
  EXPECT_EQ(refused(many + "1\r\n"), message);
}

TEST(RequestLimits, AChunkLineHasAnEnd) {
  RequestParser parser(kLimits);
  parser.feed("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;");
  ParseState state = ParseState::kMore;
  for (int i = 0; i < 20 && state == ParseState::kMore; ++i) {
    state = parser.feed(std::string(100, 'e'));
  }
  EXPECT_EQ(state, ParseState::kRefused);
}

TEST(RequestLimits, ThreeBytesBehindTheLastChunkAreNoEnd) {
  RequestParser parser(kLimits);
  parser.feed("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
  EXPECT_EQ(parser.feed("\r"), ParseState::kMore);
  EXPECT_EQ(parser.feed("\n"), ParseState::kComplete);
}

TEST(RequestMistakes, SayWhatIsWrong) {
  EXPECT_EQ(refused("GET / HTTP/2.0\r\n\r\n"),
            "505 {\"error\":\"its version of HTTP is neither 1.0 nor 1.1\"}\n");
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n\r\n"),
            "400 {\"error\":\"it has 0 Host fields; HTTP/1.1 has one\"}\n");
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
            "400 {\"error\":\"it has 2 Host fields; HTTP/1.1 has one\"}\n");
  EXPECT_EQ(
      refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"),
      "501 {\"error\":\"the body's transfer encoding is not chunked, the only one there is\"}\n");
  EXPECT_EQ(refused("POST / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n"),
            "417 {\"error\":\"it expects something else than 100-continue\"}\n");
  EXPECT_EQ(refused("\x16\x03\x01 a"),
            "400 {\"error\":\"this is no request of HTTP/1.1: bad method\"}\n");
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n")
                .substr(0, 3),
            "400")
      << "two lengths";
}

TEST(AnswerParsing, AnswersAreBounded) {
  AnswerParser parser(10);
  EXPECT_EQ(parser.feed("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"), ParseState::kMore);
  EXPECT_EQ(parser.feed("c"), ParseState::kComplete);
  EXPECT_EQ(parser.take().body, "abc");
  AnswerParser long_one(10);
  EXPECT_EQ(long_one.feed("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n"), ParseState::kRefused);
  EXPECT_EQ(long_one.mistake(), "an answer of more than 10 bytes");
  AnswerParser cut(10);
  EXPECT_EQ(cut.feed("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"), ParseState::kMore);
  EXPECT_EQ(cut.end(), ParseState::kRefused);
  EXPECT_EQ(cut.mistake(), "the connection ended before the answer did");
}

}  // namespace
}  // namespace tessera::http
