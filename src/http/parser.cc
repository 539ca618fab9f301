#include "http/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <cstdint>
#include <utility>

namespace tessera::http {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

// What ends a parse from inside one of the calls below; which of our bounds it was stands beside.
ErrorCode stop() { return http::make_error_code(http::error::bad_value); }

constexpr std::size_t kAnswerHeadBytes = 64 << 10;

// "http://host:1/path" has the host in the address; all others have only a path.
void split_target(std::string_view target, Request& request) {
  constexpr std::string_view kScheme = "http://";
  if (target.size() > kScheme.size() &&
      equal_ignoring_case(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(kScheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    request.host = std::string(target.substr(0, end));
    target.remove_prefix(end);
  }
  const std::size_t mark = std::min(target.find('?'), target.size());
  request.path = std::string(target.substr(0, mark));
  if (request.path.empty()) request.path = "/";
  request.query = std::string(target.substr(std::min(mark + 1, target.size())));
}

}  // namespace

class RequestParser::Beast : public http::basic_parser<true> {
 public:
  explicit Beast(const Limits& limits) : limits_(limits) {
    eager(true);
    body_limit(limits.body_bytes);
    // Counts only what is not parsed yet; head_bytes() counts all.
    header_limit(static_cast<std::uint32_t>(limits.header_bytes + 1));
  }

  Request request;
  int refused = 0;              // status
  std::string refused_because;  // a message
  std::size_t hosts = 0;
  bool has_line = false;
  bool has_whole_body = false;  // that was read past the parser
  bool expects_continue = false;

  std::size_t head_bytes() const { return head_bytes_; }

  void refuse(int status, std::string message) {
    if (refused != 0) return;
    refused = status;
    refused_because = std::move(message);
  }
  void refuse_head() {
    refuse(431, fmt::format("the head has more than the {} bytes that are allowed",
                            limits_.header_bytes));
  }

 protected:
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target,
                       int version, ErrorCode& error) override {
    has_line = true;
    head_bytes_ += method.size() + target.size() + 12;
    if (target.size() > limits_.target_bytes) {
      refuse(414, fmt::format("the address has more than the {} bytes that are allowed",
                              limits_.target_bytes));
      error = stop();
      return;
    }
    request.method = std::string(method);
    request.version = version;
    split_target({target.data(), target.size()}, request);
  }

  void on_field_impl(http::field name, beast::string_view name_text, beast::string_view value,
                     ErrorCode& error) override {
    head_bytes_ += name_text.size() + value.size() + 4;
    if (++fields_ > limits_.header_fields) {
      refuse(431, fmt::format("there are more than {} header fields", limits_.header_fields));
    } else if (head_bytes_ > limits_.header_bytes) {
      refuse_head();
    }
    if (refused != 0) {
      error = stop();
      return;
    }
    if (is_header_done()) return;  // behind the last chunk: counted, not kept
    const std::string_view text(value.data(), value.size());
    if (name == http::field::host) {
      ++hosts;
      if (request.host.empty()) request.host = std::string(text);
    } else if (name == http::field::transfer_encoding && !equal_ignoring_case(text, "chunked")) {
      refuse(501, "the body's transfer encoding is not chunked, the only one there is");
      error = stop();
      return;
    } else if (name == http::field::expect) {
      expects_continue = equal_ignoring_case(text, "100-continue");
      if (!expects_continue) {
        refuse(417, "it expects something else than 100-continue");
        error = stop();
        return;
      }
    }
    request.fields.push_back({std::string(name_text), std::string(text)});
  }

  void on_header_impl(ErrorCode& error) override {
    if (hosts > 1 || (hosts == 0 && request.version >= 11)) {
      refuse(400, fmt::format("it has {} Host fields; HTTP/1.1 has one", hosts));
      error = stop();
    }
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(beast::string_view body, ErrorCode& error) override {
    return keep(body, error);
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body,
                                 ErrorCode& error) override {
    return keep(body, error);
  }
  void on_finish_impl(ErrorCode&) override {}
  void on_response_impl(int, beast::string_view, int, ErrorCode&) override {}

 private:
  std::size_t keep(beast::string_view body, ErrorCode& error) {
    if (request.body.size() + body.size() > limits_.body_bytes) error = http::error::body_limit;
    if (!error) request.body.append(body.data(), body.size());
    return body.size();
  }

  const Limits& limits_;
  std::size_t fields_ = 0;
  std::size_t head_bytes_ = 0;  // parsed so far, those of trailers too
};

RequestParser::RequestParser(const Limits& limits)
    : limits_(limits), beast_(std::make_unique<Beast>(limits)) {}
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser::~RequestParser() = default;

bool RequestParser::is_complete() const { return beast_->is_done() || beast_->has_whole_body; }

ParseState RequestParser::feed(std::string_view bytes) {
  waiting_ += bytes;
  if (beast_->refused == 0 && !is_complete() && !waiting_.empty()) step();
  if (beast_->refused != 0) return ParseState::kRefused;
  return is_complete() ? ParseState::kComplete : ParseState::kMore;
}

// Grows with what has come, so that a client that only says a length gets no memory for it.
std::span<char> RequestParser::body_room() {
  constexpr std::size_t kWorthwhile = 8192, kRoom = std::size_t{256} << 10;
  Beast& beast = *beast_;
  if (beast.refused != 0 || is_complete() || !waiting_.empty() || !beast.is_header_done())
    return {};
  const auto length = beast.content_length();
  if (!length || beast.chunked() || *length > limits_.body_bytes) return {};
  std::string& body = beast.request.body;
  const std::size_t there = body_bytes_ == 0 ? body.size() : body_bytes_;
  if (there >= *length) return {};
  const std::size_t more = std::min(static_cast<std::size_t>(*length) - there, kRoom);
  if (body_bytes_ == 0 && more < kWorthwhile) return {};
  body_bytes_ = there;
  if (body.capacity() < *length) body.reserve(*length);
  if (body.size() < there + more) body.resize(there + more);
  return {body.data() + there, more};
}

ParseState RequestParser::body_filled(std::size_t bytes) {
  body_bytes_ += bytes;
  if (body_bytes_ < *beast_->content_length()) return ParseState::kMore;
  beast_->has_whole_body = true;
  return ParseState::kComplete;
}

void RequestParser::step() {
  Beast& beast = *beast_;
  // Some clients send an empty line behind a body.
  while (!beast.got_some() && waiting_.rfind("\r\n", 0) == 0) waiting_.erase(0, 2);
  if (waiting_.empty()) return;
  ErrorCode error;
  waiting_.erase(0, beast.put(boost::asio::buffer(waiting_), error));
  if (!error) return;
  if (error == http::error::body_limit) {
    beast.refuse(413, fmt::format("the body is longer than {} bytes", limits_.body_bytes));
  } else if (error == http::error::bad_version) {
    beast.refuse(505, "its version of HTTP is neither 1.0 nor 1.1");
  } else if (error != http::error::need_more && error != http::error::header_limit) {
    beast.refuse(400, fmt::format("this is no request of HTTP/1.1: {}", error.message()));
  } else {
    refuse_what_never_ends();
  }
}

// What is not parsed yet is the beginning of the request line, of the header fields, or of a
// chunk's line.
void RequestParser::refuse_what_never_ends() {
  Beast& beast = *beast_;
  constexpr std::size_t kLongestMethod = 32;
  const std::size_t line_max =
      std::min(limits_.target_bytes + kLongestMethod, limits_.header_bytes);
  if (!beast.has_line && waiting_.size() > line_max) {
    beast.refuse(414, fmt::format("the address has more than the {} bytes that are allowed",
                                  limits_.target_bytes));
  } else if (beast.head_bytes() + waiting_.size() > limits_.header_bytes) {
    beast.refuse_head();
  }
}

Request RequestParser::take() {
  Request request = std::move(beast_->request);
  request.keep_alive = beast_->keep_alive();
  beast_ = std::make_unique<Beast>(limits_);
  body_bytes_ = 0;
  return request;
}

Response RequestParser::refusal() const {
  Response response = error_response(beast_->refused, beast_->refused_because);
  response.closes = true;
  return response;
}

bool RequestParser::has_begun() const {
  return !waiting_.empty() || beast_->got_some() || is_complete();
}

bool RequestParser::wants_continue() const {
  return beast_->expects_continue && beast_->is_header_done() && !is_complete() &&
         beast_->request.body.empty();
}

class AnswerParser::Beast : public http::basic_parser<false> {
 public:
  explicit Beast(std::size_t bytes_max) {
    eager(true);
    body_limit(bytes_max);
    header_limit(kAnswerHeadBytes);
  }
  Answer answer;
  std::string mistake;

 protected:
  void on_request_impl(http::verb, beast::string_view, beast::string_view, int,
                       ErrorCode&) override {}
  void on_response_impl(int status, beast::string_view, int, ErrorCode&) override {
    answer.status = status;
  }
  void on_field_impl(http::field name, beast::string_view, beast::string_view,
                     ErrorCode&) override {
    answer.is_busy |= name == http::field::retry_after;
  }
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(beast::string_view body, ErrorCode&) override { return keep(body); }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, ErrorCode&) override {
    return keep(body);
  }
  void on_finish_impl(ErrorCode&) override {}

 private:
  std::size_t keep(beast::string_view body) {
    answer.body.append(body.data(), body.size());
    return body.size();
  }
};

AnswerParser::AnswerParser(std::size_t bytes_max)
    : bytes_max_(bytes_max), beast_(std::make_unique<Beast>(bytes_max)) {}
AnswerParser::~AnswerParser() = default;

ParseState AnswerParser::feed(std::string_view bytes) {
  waiting_ += bytes;
  if (waiting_.empty()) return ParseState::kMore;
  ErrorCode error;
  waiting_.erase(0, beast_->put(boost::asio::buffer(waiting_), error));
  if (error == http::error::need_more && waiting_.size() <= kAnswerHeadBytes) error = {};
  if (error == http::error::body_limit) {
    beast_->mistake = fmt::format("an answer of more than {} bytes", bytes_max_);
  } else if (error) {
    beast_->mistake = "an answer that is not of HTTP/1.1: " + error.message();
  }
  if (error) return ParseState::kRefused;
  return beast_->is_done() ? ParseState::kComplete : ParseState::kMore;
}

ParseState AnswerParser::end() {
  ErrorCode error = http::make_error_code(http::error::partial_message);
  if (beast_->got_some()) beast_->put_eof(error);
  if (!error) return ParseState::kComplete;
  beast_->mistake = "the connection ended before the answer did";
  return ParseState::kRefused;
}

bool AnswerParser::has_begun() const { return !waiting_.empty() || beast_->got_some(); }

std::string_view AnswerParser::mistake() const { return beast_->mistake; }

Answer AnswerParser::take() {
  Answer answer = std::move(beast_->answer);
  answer.keep_alive = beast_->keep_alive();
  return answer;
}

}  // namespace tessera::http
