// A thread of low priority that does small pieces of work which others may need later.
//
//   wake() ─► piece, piece, ... until there is none ─► waits for wake()
//                 └ not while somebody holds a Pause
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::device {

// For several threads at once.
class Preparation {
 public:
  // `work` does a piece, and says whether there may be another one. The thread that makes the object ends it.
  explicit Preparation(std::function<bool(const Preparation&)> work);
  // Waits for the piece in hand, whose work may look at stops().
  ~Preparation();
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  // There may be something to do again.
  void wake();
  // Whether nothing is left to do since the last wake(); and waits for that, at most so long.
  bool over() const;
  bool wait_until_over(std::chrono::milliseconds limit) const;
  // Whether it ends.
  bool stops() const;

  // While it lives no piece begins. `of` may be null.
  class Pause {
   public:
    explicit Pause(Preparation* of);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Preparation* const of_;
  };

 private:
  void serve();

  const std::function<bool(const Preparation&)> work_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::condition_variable changed_;
  bool has_work_ = false, stops_ = false;
  bool woken_ = false;  // since the piece in hand began
  int pauses_ = 0;
  std::thread thread_;
};

}  // namespace tessera::device
