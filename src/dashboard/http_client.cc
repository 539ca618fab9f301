#include "dashboard/http_client.h"

#include <fmt/format.h>

#include <utility>

#include "dashboard/requests.h"

namespace tessera::dashboard {

Result<HttpClient> HttpClient::at(const std::string& url) {
  std::string place = url;
  if (place.rfind("http://", 0) == 0) place = place.substr(7);
  while (!place.empty() && place.back() == '/') place.pop_back();
  const Result<ListenAddress> listen = parse_listen_address(place);
  if (!listen.ok() || listen->port == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is no address of a running pipeline; allowed "
                             "http://ADDRESS:PORT, ADDRESS:PORT or PORT",
                             url)};
  }
  const bool is_v6 = listen->address.find(':') != std::string::npos;
  return HttpClient(is_v6 ? fmt::format("http://[{}]:{}", listen->address, listen->port)
                          : fmt::format("http://{}:{}", listen->address, listen->port),
                    http::Client({.address = listen->address, .port = listen->port}));
}

HttpClient::HttpClient(std::string url, http::Client client)
    : url_(std::move(url)), client_(std::move(client)) {}

Result<http::Answer> HttpClient::ask(const http::Question& question) {
  Result<http::Answer> answer = client_.ask(question);
  if (answer.ok()) return answer;
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} does not answer ({}); is `tessera watch` or a program with --http "
                           "running there?",
                           url_, answer.error().message)};
}

Result<http::Answer> HttpClient::get(const std::string& path) { return ask({.target = path}); }

Result<http::Answer> HttpClient::post_json(const std::string& path, const std::string& body) {
  return ask({.method = "POST", .target = path, .type = "application/json", .body = body});
}

}  // namespace tessera::dashboard
