// A relay of TCP on loopback that breaks what goes through it.
//
//   client ══► [proxy] ══► HOST:PORT
//
// It passes everything on until it is told otherwise. For several threads at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace tessera::testing {

class BreakingProxy {
 public:
  // "HOST:PORT" by numbers, of IP version 4; empty: set_target() before the first connection.
  explicit BreakingProxy(const std::string& target = {}, const std::string& host = "127.0.0.1");
  ~BreakingProxy();
  BreakingProxy(const BreakingProxy&) = delete;
  BreakingProxy& operator=(const BreakingProxy&) = delete;

  void set_target(const std::string& target);
  std::string endpoint() const;  // "127.0.0.1:PORT", or at `host`

  void pass();  // whole again; what was held goes on
  void hold();  // connections stay, and nothing comes through any more, as if a cable were out
  void cut();   // connections end, and new ones too
  // After so many bytes more of the target's answers nothing comes through.
  void hold_after(std::int64_t bytes);
  // After so many bytes more of the target's answers their connection ends; others go on.
  void cut_after(std::int64_t bytes);
  // Answers come through in pieces of so many bytes, each after a pause.
  void drip(std::size_t bytes, std::chrono::milliseconds pause);

 private:
  enum class Mode { kPass, kHold, kCut };
  struct Way {  // in one direction
    int from = -1, to = -1;
    std::string waiting = {};  // that `to` does not take yet
    bool has_ended = false;    // `from` will send nothing more
  };
  struct Pair {
    Way there, back;
    bool is_broken = false;
  };

  void run();
  void accept();
  bool relay(Way& way, bool is_answer);  // false: it is broken
  void wake() const;

  const std::string host_;
  int listening_ = -1, port_ = 0, wake_[2] = {-1, -1};
  std::mutex mutex_;  // of what follows
  std::string target_;
  Mode mode_ = Mode::kPass;
  Mode then_ = Mode::kPass;  // when left_ is used up
  std::int64_t left_ = -1;   // bytes of answers; negative: any number
  std::size_t piece_ = 0;    // 0: as they come
  std::chrono::milliseconds pause_{0};
  std::list<Pair> pairs_;  // of the thread
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace tessera::testing
