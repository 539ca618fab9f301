#include "http/client.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <thread>
#include <utility>

namespace tessera::http {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using SystemError = boost::system::error_code;
using Clock = std::chrono::steady_clock;

}  // namespace

class Client::Connection {
 public:
  Status open(const ClientOptions& options) {
    SystemError error;
    Tcp::resolver resolver(io_);
    const auto places = resolver.resolve(options.address, std::to_string(options.port), error);
    if (error) return failed(error);
    error = asio::error::would_block;
    asio::async_connect(socket_, places,
                        [&](SystemError result, const Tcp::endpoint&) { error = result; });
    return finish(Clock::now() + options.connect_time, error);
  }

  Status send(std::string_view text, Clock::time_point deadline) {
    SystemError error = asio::error::would_block;
    asio::async_write(socket_, asio::buffer(text),
                      [&](SystemError result, std::size_t) { error = result; });
    return finish(deadline, error);
  }

  // What has come; empty at the end.
  Result<std::string_view> receive(Clock::time_point deadline) {
    SystemError error = asio::error::would_block;
    std::size_t bytes = 0;
    socket_.async_read_some(asio::buffer(input_), [&](SystemError result, std::size_t count) {
      error = result;
      bytes = count;
    });
    const Status status = finish(deadline, error);
    if (error == asio::error::eof) return std::string_view();
    TESSERA_RETURN_IF_ERROR(status);
    return std::string_view(input_.data(), bytes);
  }

 private:
  static Error failed(const SystemError& error) {
    return {ErrorCode::kUnavailable, error.message()};
  }

  // Runs what was begun until it is done; what is not done in time is given up.
  Status finish(Clock::time_point deadline, const SystemError& error) {
    io_.restart();
    io_.run_until(deadline);
    if (!io_.stopped()) {
      SystemError ignored;
      socket_.close(ignored);
      io_.run();
      return Error{ErrorCode::kUnavailable, "it took too long"};
    }
    if (error) return failed(error);
    return {};
  }

  asio::io_context io_{1};
  Tcp::socket socket_{io_};
  std::array<char, 16384> input_{};
};

Client::Client(ClientOptions options) : options_(std::move(options)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Answer> Client::ask(const Question& question) {
  const bool is_v6 = options_.address.find(':') != std::string::npos;
  std::string text =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}{}{}:{}\r\n", question.method, question.target,
                  is_v6 ? "[" : "", options_.address, is_v6 ? "]" : "", options_.port);
  if (!question.type.empty()) text += fmt::format("Content-Type: {}\r\n", question.type);
  if (question.method != "GET" || !question.body.empty()) {
    text += fmt::format("Content-Length: {}\r\n", question.body.size());
  }
  text += "\r\n";
  text += question.body;
  try {
    const bool may_ask_again = question.method == "GET";
    if (!may_ask_again) connection_.reset();
    for (int attempt = 1;; ++attempt) {
      // A server may close a connection that was idle just when the next question comes.
      const bool was_kept = connection_ != nullptr;
      bool is_unanswered = false;
      Result<Answer> answer = ask_once(text, is_unanswered);
      const bool is_final = answer.ok() ? !answer->is_busy : !is_unanswered;
      if (is_final || !may_ask_again || attempt >= options_.attempts) return answer;
      if (!was_kept || answer.ok()) std::this_thread::sleep_for(options_.between_attempts);
    }
  } catch (const std::exception& error) {
    connection_.reset();
    return Error{ErrorCode::kUnavailable, error.what()};
  }
}

Result<Answer> Client::ask_once(const std::string& text, bool& is_unanswered) {
  // Kept again where all went well.
  std::unique_ptr<Connection> connection = std::move(connection_);
  if (connection == nullptr) {
    connection = std::make_unique<Connection>();
    TESSERA_RETURN_IF_ERROR(connection->open(options_));
  }
  const Clock::time_point deadline = Clock::now() + options_.answer_time;
  AnswerParser parser(options_.answer_bytes);
  const Status sent = connection->send(text, deadline);
  ParseState state = ParseState::kMore;
  while (state == ParseState::kMore) {
    // Also what could not be sent as a whole may have an answer: that it is too long.
    const Result<std::string_view> bytes = connection->receive(deadline);
    if (!bytes.ok() || bytes->empty()) is_unanswered = !parser.has_begun();
    TESSERA_RETURN_IF_ERROR(bytes);
    state = bytes->empty() ? parser.end() : parser.feed(*bytes);
  }
  if (state == ParseState::kRefused) {
    return Error{ErrorCode::kUnavailable, std::string(parser.mistake())};
  }
  Answer answer = parser.take();
  if (answer.keep_alive && sent.ok()) connection_ = std::move(connection);
  return answer;
}

}  // namespace tessera::http
