// Asks a running pipeline's server, for `tessera top` and tests.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace tessera::dashboard {

struct Answer {
  int status = 0;
  std::string body;
};

class HttpClient {
 public:
  // "http://127.0.0.1:8080", "127.0.0.1:8080" or a port of this machine.
  static Result<HttpClient> at(const std::string& url);
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // An error where nobody answers; any status is an answer.
  Result<Answer> get(const std::string& path);
  Result<Answer> post_json(const std::string& path, const std::string& body);
  const std::string& url() const { return url_; }

 private:
  class Connection;
  HttpClient(std::string url, std::unique_ptr<Connection> connection);
  std::string url_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace tessera::dashboard
