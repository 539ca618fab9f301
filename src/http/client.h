// Asks a server over one connection, which is kept for the next question. For a command and for
// tests: each call waits for its answer, within limits.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/parser.h"

namespace tessera::http {

struct ClientOptions {
  std::string address = "127.0.0.1";
  int port = 0;
  std::chrono::milliseconds connect_time{2000};
  std::chrono::milliseconds answer_time{5000};  // from the question to the last byte
  std::size_t answer_bytes = std::size_t{64} << 20;
  // How often a GET is asked in all where the server is busy or closes without an answer, and what
  // lies between.
  int attempts = 5;
  std::chrono::milliseconds between_attempts{200};
};

struct Question {
  std::string_view method = "GET", target = "/";
  std::string_view type{}, body{};  // of what is sent along; may be empty
};

class Client {
 public:
  explicit Client(ClientOptions options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // An error without an answer in time, with the reason in a few words; any status is an answer.
  Result<Answer> ask(const Question& question);

 private:
  class Connection;
  Result<Answer> ask_once(const std::string& text, bool& is_unanswered);
  ClientOptions options_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace tessera::http
