// Asks a running pipeline's server, for `tessera top` and tests.
#pragma once

#include <string>

#include "base/result.h"
#include "http/client.h"

namespace tessera::dashboard {

using http::Answer;

class HttpClient {
 public:
  // "http://127.0.0.1:8080", "127.0.0.1:8080" or a port of this machine.
  static Result<HttpClient> at(const std::string& url);

  // An error without an answer; any status is an answer.
  Result<Answer> get(const std::string& path);
  Result<Answer> post_json(const std::string& path, const std::string& body);
  const std::string& url() const { return url_; }

 private:
  HttpClient(std::string url, http::Client client);
  Result<Answer> ask(const http::Question& question);
  std::string url_;
  http::Client client_;
};

}  // namespace tessera::dashboard
