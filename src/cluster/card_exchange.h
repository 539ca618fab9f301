// The processes of a run over several machines, as the simulation of their cards meets them: after each window of
// cycles each has something for each other.
//
//   process 0 ─ window ─► process 1, 2, ...     a call with the batch for it; the answer is the batch of the other
//   process 1 ─ window ─► process 2, ...
//
// What comes before this process is as far waits, also a run that has not begun here. A process that ends is noticed
// by its connection, and the run ends with an error that names its node.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/channel.h"
#include "device/cards_apart.h"

namespace tessera::cluster {

// For several threads at once; runs follow each other.
class CardExchange : public device::CardPeers {
 public:
  // Opens a channel to a process behind this one, for `window` calls alone.
  using Connect = std::function<Result<std::shared_ptr<Channel>>(int process)>;
  // Of processes on these nodes, by name, this one is `own`.
  CardExchange(int own, std::vector<std::string> nodes, Connect connect);

  // Runs have ascending numbers, the same in all processes.
  Status begin(std::int64_t run);
  void finish();
  Result<Batches> exchange(Batches own) override;

  // Ends the run that is under way, if it is under way, with this error.
  void stop(const Error& why);
  // The leader's: tells all others that the run is stopped, if it was; they may not have begun it, or wait for one
  // that has gone.
  void stop_others();

  // A call of a process before this one; waits until this one is as far.
  Result<Reply> window(int from, std::int64_t run, std::vector<std::byte> batch);
  // The leader has stopped a run.
  Reply stopped(std::int64_t run, const Error& why);
  // The connection of a process before this one has ended.
  void left(int process);
  // For ever: whoever waits gets this error.
  void end(const Error& why);
  // The error of a run that a process has left.
  Error gone(int process, const std::string& reason) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  bool is_over() const { return ended_.has_value() || failed_.has_value(); }
  Error why() const { return ended_.has_value() ? *ended_ : *failed_; }
  void fail(const Error& error);  // with the lock held
  Result<std::shared_ptr<Channel>> channel_to(int process);
  Status call(int process, std::vector<std::byte> own, std::vector<std::byte>& came);

  const int own_;
  const std::vector<std::string> nodes_;
  const Connect connect_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::int64_t run_ = 0, stopped_run_ = 0;
  bool is_running_ = false;
  std::optional<Error> failed_, ended_;  // this run; for ever
  std::vector<std::optional<std::vector<std::byte>>> incoming_,
      outgoing_;  // processes before this one
  std::vector<std::shared_ptr<Channel>>
      channels_;  // to those behind it; shared with calls on their way
};

}  // namespace tessera::cluster
