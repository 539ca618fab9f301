// A terminal that shows a picture again and again, as wide and high as it is, until it is
// ended. All is as it was before when this ends: screen, cursor, the way keys are read, signals.
#pragma once

#include <signal.h>
#include <termios.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>

namespace tessera::tools {

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Size {
    int columns = 80, rows = 24;
    friend bool operator==(const Size&, const Size&) = default;
  };
  static Size size();

  // Lines that are too long are cut, and those that are too many left out; `footer` stands below.
  static void show(const std::string& text, const std::string& footer);

  enum class Event {
    kNothing,  // until `until`
    kResized,
    kEnd,  // q, Ctrl-C, or a signal that ends processes
  };
  Event wait(std::chrono::steady_clock::time_point until);

 private:
  std::optional<termios> keys_before_;
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> signals_before_{};
  Size size_;
};

// The picture as lines of a screen of this size, the last one being `footer`. What
// would steer a terminal is written out (tessera/visible_text.h).
std::string fitted(const std::string& text, const std::string& footer, Terminal::Size size);

}  // namespace tessera::tools
