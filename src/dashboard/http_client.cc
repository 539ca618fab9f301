#include "dashboard/http_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <utility>

#include "dashboard/requests.h"

namespace tessera::dashboard {

class HttpClient::Connection {
 public:
  explicit Connection(const std::string& url) : client(url) {
    client.set_connection_timeout(2);
    client.set_read_timeout(5);
    client.set_keep_alive(true);
  }
  httplib::Client client;
};

namespace {

Result<Answer> answer_of(const httplib::Result& result, const std::string& url) {
  if (!result) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} does not answer ({}); is `tessera watch` or a program with --http "
                             "running there?",
                             url, httplib::to_string(result.error()))};
  }
  return Answer{result->status, result->body};
}

}  // namespace

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
  const std::string full = fmt::format("http://{}:{}", listen->address, listen->port);
  return HttpClient(full, std::make_unique<Connection>(full));
}

HttpClient::HttpClient(std::string url, std::unique_ptr<Connection> connection)
    : url_(std::move(url)), connection_(std::move(connection)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<Answer> HttpClient::get(const std::string& path) {
  return answer_of(connection_->client.Get(path), url_);
}

Result<Answer> HttpClient::post_json(const std::string& path, const std::string& body) {
  return answer_of(connection_->client.Post(path, body, "application/json"), url_);
}

}  // namespace tessera::dashboard
