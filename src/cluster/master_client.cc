#include "cluster/master_client.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cluster/fields.h"
#include "cluster/message.h"
#include "cluster/names.h"

namespace tessera::cluster {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr const char* kElsewhere = "the master is at ";
constexpr milliseconds kBetweenAsks{50};

// Whether a master refuses what it may grant in a moment; where there is no room it says so without these words.
bool passes_by(const Error& refused) {
  return refused.code == ErrorCode::kUnavailable && refused.message.ends_with("; try again");
}

}  // namespace

MasterClient::MasterClient(Dialer& dialer, std::vector<std::string> masters)
    : dialer_(dialer), masters_(std::move(masters)) {}

Result<json> MasterClient::call_one(const std::string& endpoint, const json& request,
                                    TimePoint deadline) {
  std::shared_ptr<Channel> channel;
  {
    const std::lock_guard lock(mutex_);
    if (endpoint == leader_ && channel_ != nullptr && channel_->is_open()) channel = channel_;
  }
  if (channel == nullptr) {
    TESSERA_TRY(channel, dialer_.open(endpoint, deadline));
    const std::lock_guard lock(mutex_);
    leader_ = endpoint;
    channel_ = channel;
  }
  auto answer = channel->call(dump(request), {}, deadline);
  if (!answer.ok()) return answer.error();
  return parse_object(answer->text, "answer of a master");
}

Result<json> MasterClient::call(json request, milliseconds patience) {
  // By it a master knows that it is the same request, once more.
  if (request.value("call", "") == "acquire" && !request.contains("ticket")) {
    request["ticket"] = random_name();
  }
  const TimePoint deadline = steady_clock::now() + patience;
  constexpr milliseconds kForOne{5000};
  Error last{ErrorCode::kUnavailable, "no master was asked"};
  std::string named;
  for (std::size_t turn = 0;; ++turn) {
    std::string endpoint = std::exchange(named, "");
    if (endpoint.empty()) {
      const std::lock_guard lock(mutex_);
      endpoint = turn == 0 && !leader_.empty() ? leader_ : masters_[turn % masters_.size()];
    }
    const TimePoint now = steady_clock::now();
    auto answer = call_one(endpoint, request,
                           std::max(std::min(deadline, now + kForOne), now + kBetweenAsks));
    if (answer.ok() && answer->contains("refused")) {
      const json& refused = (*answer)["refused"];
      last = parse_error_text(refused.is_string() ? refused.get<std::string>() : "");
      if (!passes_by(last)) return last;
    } else if (answer.ok() || answer.error().code != ErrorCode::kUnavailable) {
      return answer;
    } else {
      last = answer.error();
    }
    if (last.message.starts_with(kElsewhere)) {
      named = last.message.substr(std::string(kElsewhere).size());
    }
    if (steady_clock::now() + kBetweenAsks >= deadline) return last;
    if (turn >= masters_.size() || named.empty()) std::this_thread::sleep_for(kBetweenAsks);
  }
}

struct ChannelCaller::State {
  explicit State(Dialer& of) : dialer(of) {}
  Dialer& dialer;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Channel>> channels;  // shared with calls
};

ChannelCaller::ChannelCaller(Dialer& dialer) : state_(std::make_unique<State>(dialer)) {}
ChannelCaller::~ChannelCaller() = default;

Result<json> ChannelCaller::call(const std::string& endpoint, const json& request,
                                 milliseconds timeout) {
  const TimePoint deadline = steady_clock::now() + timeout;
  std::shared_ptr<Channel> channel;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->channels.find(endpoint);
    if (found != state_->channels.end() && found->second->is_open()) channel = found->second;
  }
  if (channel == nullptr) {
    TESSERA_TRY(channel, state_->dialer.open(endpoint, deadline));
    const std::lock_guard lock(state_->mutex);
    state_->channels[endpoint] = channel;
  }
  auto answer = channel->call(dump(request), {}, deadline);
  if (!answer.ok()) return answer.error();
  return parse_object(answer->text, "answer");
}

}  // namespace tessera::cluster
