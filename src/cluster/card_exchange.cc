#include "cluster/card_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/errors.h"
#include "cluster/fields.h"

namespace tessera::cluster {

CardExchange::CardExchange(int own, std::vector<std::string> nodes, Connect connect)
    : own_(own),
      nodes_(std::move(nodes)),
      connect_(std::move(connect)),
      incoming_(nodes_.size()),
      outgoing_(nodes_.size()),
      channels_(nodes_.size()) {}

Error CardExchange::gone(int process, const std::string& reason) const {
  return unavailable(
      fmt::format("node '{}' has left a run over several machines in the middle ({}); what is "
                  "placed anew can run it again",
                  nodes_[static_cast<std::size_t>(process)], reason));
}

Status CardExchange::begin(std::int64_t run) {
  const Lock lock(mutex_);
  if (ended_.has_value()) return *ended_;
  if (run <= stopped_run_) return unavailable("that run was stopped before it began on this node");
  run_ = run;
  is_running_ = true;
  failed_.reset();
  for (auto& batch : incoming_) batch.reset();
  for (auto& batch : outgoing_) batch.reset();
  changed_.notify_all();
  return {};
}

void CardExchange::finish() {
  const Lock lock(mutex_);
  is_running_ = false;
  changed_.notify_all();
}

// Connections are made anew for the next run: what is on its way on these belongs to this one. Processes behind this
// one notice by that.
void CardExchange::fail(const Error& error) {
  if (!failed_.has_value()) failed_ = error;
  for (auto& channel : channels_) {
    if (channel != nullptr) channel->end();
    channel.reset();
  }
  changed_.notify_all();
}

void CardExchange::left(int process) {
  const Lock lock(mutex_);
  if (is_running_) fail(gone(process, "its connection has ended"));
}

void CardExchange::end(const Error& why) {
  const Lock lock(mutex_);
  if (!ended_.has_value()) ended_ = why;
  fail(why);
}

void CardExchange::stop(const Error& why) {
  const Lock lock(mutex_);
  if (is_running_) fail(why);
}

void CardExchange::stop_others() {
  Error why;
  std::int64_t run = 0;
  {
    const Lock lock(mutex_);
    if (!is_over()) return;
    why = this->why();
    run = run_;
  }
  constexpr std::chrono::seconds kForOne{2};
  for (int process = own_ + 1; process < static_cast<int>(nodes_.size()); ++process) {
    const auto channel = connect_(process);
    if (!channel.ok()) continue;
    (void)(*channel)->call(dump({{"call", "stop"}, {"run", run}, {"why", error_text(why)}}), {},
                           std::chrono::steady_clock::now() + kForOne);
  }
}

Reply CardExchange::stopped(std::int64_t run, const Error& why) {
  const Lock lock(mutex_);
  stopped_run_ = std::max(stopped_run_, run);
  if (is_running_ && run_ == run) fail(why);
  return {};
}

Result<std::shared_ptr<Channel>> CardExchange::channel_to(int process) {
  const auto at = static_cast<std::size_t>(process);
  {
    const Lock lock(mutex_);
    if (is_over()) return why();
    if (channels_[at] != nullptr && channels_[at]->is_open()) return channels_[at];
  }
  auto channel = connect_(process);
  if (!channel.ok()) return gone(process, channel.error().message);
  const Lock lock(mutex_);
  if (is_over()) return why();
  channels_[at] = *channel;
  return *channel;
}

Status CardExchange::call(int process, std::vector<std::byte> own, std::vector<std::byte>& came) {
  TESSERA_TRY(const auto channel, channel_to(process));
  const std::span<const std::byte> body = own;
  auto answer = channel->call(fmt::format(R"({{"call":"window","run":{}}})", run_),
                              std::span(&body, 1), TimePoint::max());
  if (!answer.ok()) {
    // Of a peer that still answers it is the reason.
    if (channel->is_open()) return answer.error();
    return gone(process, answer.error().message);
  }
  TESSERA_TRY(const auto batch, only_piece(answer->body));
  came.assign(batch.begin(), batch.end());
  return {};
}

Result<device::CardPeers::Batches> CardExchange::exchange(Batches own) {
  Batches came(nodes_.size());
  {
    Lock lock(mutex_);
    for (int process = 0; process < own_; ++process) {
      auto& outgoing = outgoing_[static_cast<std::size_t>(process)];
      changed_.wait(lock, [&] { return is_over() || !outgoing.has_value(); });
      if (is_over()) return why();
      outgoing = std::move(own[static_cast<std::size_t>(process)]);
    }
    changed_.notify_all();
  }
  for (int process = own_ + 1; process < static_cast<int>(nodes_.size()); ++process) {
    const auto at = static_cast<std::size_t>(process);
    const Status called = call(process, std::move(own[at]), came[at]);
    if (called.ok()) continue;
    const Lock lock(mutex_);
    fail(called.error());
    return why();
  }
  Lock lock(mutex_);
  for (int process = 0; process < own_; ++process) {
    auto& incoming = incoming_[static_cast<std::size_t>(process)];
    changed_.wait(lock, [&] { return is_over() || incoming.has_value(); });
    if (!incoming.has_value()) return why();
    came[static_cast<std::size_t>(process)] = std::move(*incoming);
    incoming.reset();
  }
  changed_.notify_all();
  return came;
}

Result<Reply> CardExchange::window(int from, std::int64_t run, std::vector<std::byte> batch) {
  const auto at = static_cast<std::size_t>(from);
  if (from < 0 || from >= own_) {
    return Error{ErrorCode::kInvalidArgument, "a window of a process that is not before this one"};
  }
  Lock lock(mutex_);
  const auto is_past = [&] { return run_ > run || (run_ == run && !is_running_); };
  changed_.wait(lock, [&] {
    return ended_.has_value() || is_past() ||
           (run_ == run && (failed_.has_value() || !incoming_[at].has_value()));
  });
  if (is_over()) return why();
  if (is_past()) return unavailable("that run is over on this node");
  incoming_[at] = std::move(batch);
  changed_.notify_all();
  changed_.wait(lock, [&] { return is_over() || run_ != run || outgoing_[at].has_value(); });
  if (!outgoing_[at].has_value()) {
    return is_over() ? why() : unavailable("that run is over on this node");
  }
  Reply reply{"{}", {std::move(*outgoing_[at])}};
  outgoing_[at].reset();
  changed_.notify_all();
  return reply;
}

}  // namespace tessera::cluster
