// Requests and responses of HTTP/1.1, as the parser gives them and the server sends them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tessera::http {

struct Field {
  std::string name, value;
};

// A query taken apart, percent signs and plus signs decoded.
using Parameters = std::multimap<std::string, std::string>;

struct Request {
  std::string method{};  // as sent: "GET"
  std::string path{};    // "/history"; without query, as sent
  std::string query{};   // behind the question mark; may be empty
  std::string host{};    // of the address or the Host field; empty: there was none
  int version = 11;      // 10 or 11
  bool keep_alive = true;
  std::vector<Field> fields{};
  std::string body{};

  // The first field of this name in any case.
  std::optional<std::string_view> field(std::string_view name) const;
  Parameters parameters() const;
};

// A part of a response that is made while the one before is on its way.
struct Piece {
  std::string bytes{};                 // may be empty
  std::chrono::milliseconds pause{0};  // before the next
  bool is_last = false;
};

// A body that never lies in memory as a whole. `next` is called on the server's thread when the
// client has taken the piece before; where it throws, the connection ends in the middle.
struct Pieces {
  std::function<Piece()> next{};
  std::size_t held_bytes = 0;  // what `next` keeps meanwhile; counts as a response in flight
  bool is_endless = false;     // goes on until it is ended: one of Limits::streams
};

// A text of its own, a text that is always there, or pieces.
using Body = std::variant<std::string, std::string_view, Pieces>;

struct Response {
  int status = 200;
  std::string type{};  // of the body: "application/json"; empty where there is none
  Body body{};
  std::vector<Field> fields{};
  bool closes = false;  // the connection ends behind it
};

// {"error": "..."} as every refusal of the server itself has it. `message` is plain text.
Response error_response(int status, std::string_view message);

// The same with status 503, for a client that may ask again in a second.
Response busy_response(std::string_view message);

// "Not Found".
std::string_view reason_of(int status);

struct HeadOptions {
  int version = 11;
  bool keep_alive = true;
  const std::vector<Field>* fields = nullptr;  // of every response; may be null
};
// Status line and header fields up to the empty line. A body of pieces is sent in chunks to 1.1.
std::string head_text(const Response& response, const HeadOptions& options);

bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace tessera::http
