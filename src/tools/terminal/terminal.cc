#include "tools/terminal/terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "tessera/visible_text.h"

namespace tessera::tools {
namespace {

std::atomic<bool> terminal_ended = false;

// At most this many characters; UTF-8 is not cut in the middle of one.
std::string cut(const std::string& line, std::size_t characters) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(line[i]) & 0xC0U) != 0x80U;
    if (begins && count++ == characters) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::string fitted(const std::string& text, const std::string& footer, Terminal::Size size) {
  const auto columns = static_cast<std::size_t>(std::max(size.columns, 1));
  const auto rows = static_cast<std::size_t>(std::max(size.rows, 1));
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (lines.size() + 1 > rows) {
    const std::size_t shown = rows > 1 ? rows - 2 : 0;
    const std::size_t more = lines.size() - std::min(shown, lines.size());
    lines.resize(shown);
    if (rows > 1) lines.push_back(fmt::format("... {} more lines in a higher window", more));
  }
  lines.push_back(footer);
  std::string screen;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) screen += '\n';
    screen += cut(visible_text(lines[i]), columns);
  }
  return screen;
}

Terminal::Terminal() : size_(size()) {
  terminal_ended = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { terminal_ended = true; };
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &signals_before_[i]);
  }
  termios keys = {};
  if (tcgetattr(STDIN_FILENO, &keys) == 0) {
    keys_before_ = keys;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    keys.c_cc[VSUSP] = _POSIX_VDISABLE;  // a shell in this state would be a nuisance
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  fmt::print("\x1b[?1049h\x1b[?25l");  // the other screen, without its cursor
  std::fflush(stdout);
}

Terminal::~Terminal() {
  fmt::print("\x1b[?25h\x1b[?1049l");
  std::fflush(stdout);
  if (keys_before_) tcsetattr(STDIN_FILENO, TCSANOW, &*keys_before_);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &signals_before_[i], nullptr);
  }
}

Terminal::Size Terminal::size() {
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
    return {};
  }
  return {window.ws_col, window.ws_row};
}

void Terminal::show(const std::string& text, const std::string& footer) {
  // Each line is cleared to its end, then the rest: no flicker.
  std::string screen = "\x1b[H";
  for (const char c : fitted(text, footer, size())) {
    screen += c == '\n' ? std::string("\x1b[K\r\n") : std::string(1, c);
  }
  fmt::print("{}\x1b[K\x1b[J", screen);
  std::fflush(stdout);
}

Terminal::Event Terminal::wait(std::chrono::steady_clock::time_point until) {
  while (std::chrono::steady_clock::now() < until) {
    if (terminal_ended) return Event::kEnd;
    if (const Size now = size(); now != size_) {
      size_ = now;
      return Event::kResized;
    }
    pollfd keys = {.fd = keys_before_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    if (poll(&keys, 1, 20) <= 0) continue;
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) != 1) return Event::kEnd;  // the terminal is gone
    if (key == 'q' || key == 'Q' || key == '\x03') return Event::kEnd;
  }
  return terminal_ended ? Event::kEnd : Event::kNothing;
}

}  // namespace tessera::tools
