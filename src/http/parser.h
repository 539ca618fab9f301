// Bytes of a connection to messages: Boost.Beast's parser with bounds of our own around it. No
// socket and no clock; tests and the fuzz target feed it as the server does.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "http/limits.h"
#include "http/message.h"

namespace tessera::http {

enum class ParseState {
  kMore,      // the message goes on
  kComplete,  // take() it
  kRefused,   // nothing that follows can be read; refusal() is the answer
};

// Not thread-safe. Keeps at most the bytes of one request within the limits, and of what was fed
// behind it; may throw std::bad_alloc.
class RequestParser {
 public:
  // The limits outlive the parser.
  explicit RequestParser(const Limits& limits);
  RequestParser(RequestParser&&) noexcept;
  ~RequestParser();

  // What came in. Once a request is complete, further bytes wait until it is taken.
  ParseState feed(std::string_view bytes);
  // Where the rest of a body of known length is long: room for what comes next of it, which is read to there instead
  // of being fed. Empty: it is to be fed.
  std::span<char> body_room();
  ParseState body_filled(std::size_t bytes);  // of that room, from its beginning
  Request take();  // after kComplete; then feed({}) reads on in what waits
  Response refusal() const;

  bool has_begun() const;  // a byte of a request is there
  // The client waits for "100 Continue" before it sends the body.
  bool wants_continue() const;

 private:
  class Beast;
  void step();
  void refuse_what_never_ends();
  bool is_complete() const;

  const Limits& limits_;
  std::string waiting_;  // fed and not yet parsed
  std::unique_ptr<Beast> beast_;
  std::size_t body_bytes_ = 0;  // in place, of a body with room made for more; 0: all of it is
};

struct Answer {
  int status = 0;
  bool keep_alive = false;
  bool is_busy = false;  // it says when to ask again: Retry-After
  std::string body;
};

// The answer to one request, for a client. An answer that is longer than `bytes_max` is refused.
class AnswerParser {
 public:
  explicit AnswerParser(std::size_t bytes_max);
  ~AnswerParser();

  ParseState feed(std::string_view bytes);
  ParseState end();  // the connection was closed
  bool has_begun() const;
  std::string_view mistake() const;  // after kRefused
  Answer take();                     // after kComplete

 private:
  class Beast;
  const std::size_t bytes_max_;
  std::string waiting_;
  std::unique_ptr<Beast> beast_;
};

}  // namespace tessera::http
