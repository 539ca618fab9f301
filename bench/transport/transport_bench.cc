// What carries messages how fast on this machine: round trips and the rate of large messages of each
// candidate, server and client in processes of their own. docs/decisions/0018-messages-are-our-own.md
// has a table of it.
//
//   transport_bench [--rounds N] [--runs N] [NAME...]
//
// All candidates take turns; of each figure the best of the runs is shown, since other programs on the
// machine only ever make it worse.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "candidate.h"

namespace {

using namespace tessera::bench;
using Clock = std::chrono::steady_clock;

struct Figures {
  double round_trip_8 = 0, round_trip_64k = 0, round_trip_1m = 0;  // µs, median
  double rate_16m = 0;                                             // GB/s
};

std::string free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound =
      ::bind(socket, general, bytes) == 0 && ::getsockname(socket, general, &bytes) == 0;
  ::close(socket);
  if (!is_bound) std::_Exit(1);
  return std::to_string(ntohs(address.sin_port));
}

double median_round_trip(Client& client, std::size_t bytes, int rounds) {
  std::vector<std::byte> message(bytes, std::byte{'e'}), answer(bytes);
  std::vector<double> times;
  for (int i = -rounds / 10; i < rounds; ++i) {
    const auto begin = Clock::now();
    client.send(message);
    if (client.receive(answer) != bytes) std::exit(1);
    if (i >= 0)
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

double rate(Client& client, int messages) {
  std::vector<std::byte> message(kMessageBytesMax, std::byte{'a'}), end(8, std::byte{'q'}),
      answer(8);
  client.send(message);
  client.send(end);
  client.receive(answer);
  const auto begin = Clock::now();
  for (int i = 0; i < messages; ++i) client.send(message);
  client.send(end);
  client.receive(answer);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return static_cast<double>(messages) * static_cast<double>(kMessageBytesMax) / seconds / 1e9;
}

// In a process of its own, so that no candidate leaves threads to the next.
void measure(const Candidate& candidate, int rounds, int results) {
  int pipes[2];
  if (::pipe(pipes) != 0) std::exit(1);
  const std::string place = free_port();
  const pid_t server = ::fork();
  if (server == 0) {
    candidate.serve(place, [&] { (void)!::write(pipes[1], "x", 1); });
    std::_Exit(0);
  }
  char ready = 0;
  if (::read(pipes[0], &ready, 1) != 1) std::exit(1);
  {
    const std::unique_ptr<Client> client = candidate.connect(place);
    Figures figures;
    figures.round_trip_8 = median_round_trip(*client, 8, 20 * rounds);
    figures.round_trip_64k = median_round_trip(*client, 64 << 10, 5 * rounds);
    figures.round_trip_1m = median_round_trip(*client, 1 << 20, rounds);
    figures.rate_16m = rate(*client, std::max(rounds / 10, 10));
    (void)!::write(results, &figures, sizeof figures);
  }
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  std::_Exit(0);
}

// Of one run more. False where it failed.
bool add_run(const Candidate& candidate, int rounds, Figures& best) {
  int results[2];
  if (::pipe(results) != 0) return false;
  const pid_t process = ::fork();
  if (process == 0) measure(candidate, rounds, results[1]);
  ::close(results[1]);
  Figures run;
  const bool is_whole = ::read(results[0], &run, sizeof run) == sizeof run;
  ::close(results[0]);
  ::waitpid(process, nullptr, 0);
  if (!is_whole) return false;
  best = {.round_trip_8 = std::min(best.round_trip_8, run.round_trip_8),
          .round_trip_64k = std::min(best.round_trip_64k, run.round_trip_64k),
          .round_trip_1m = std::min(best.round_trip_1m, run.round_trip_1m),
          .rate_16m = std::max(best.rate_16m, run.rate_16m)};
  return true;
}

}  // namespace

int main(int count, char** words) {
  int rounds = 500, runs = 5;
  std::vector<std::string> names;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--rounds") == 0 && i + 1 < count) {
      rounds = std::max(std::atoi(words[++i]), 10);
    } else if (std::strcmp(words[i], "--runs") == 0 && i + 1 < count) {
      runs = std::max(std::atoi(words[++i]), 1);
    } else {
      names.emplace_back(words[i]);
    }
  }
  std::vector<Candidate> all;
  for (const auto& list : {socket_candidates(), zeromq_candidates(), nng_candidates(),
                           ucx_candidates(), own_candidates()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  std::erase_if(all, [&](const Candidate& each) {
    return !names.empty() && std::find(names.begin(), names.end(), each.name) == names.end();
  });
  constexpr double kNone = 1e12;
  std::vector<Figures> best(all.size(), {kNone, kNone, kNone, 0});
  for (int run = 0; run < runs; ++run) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!add_run(all[i], rounds, best[i])) fmt::print(stderr, "{}: a run failed\n", all[i].name);
    }
  }
  fmt::print("| candidate | 8 B, µs | 64 KiB, µs | 1 MiB, µs | 16 MiB, GB/s |\n");
  fmt::print("| --- | --- | --- | --- | --- |\n");
  for (std::size_t i = 0; i < all.size(); ++i) {
    fmt::print("| {} | {:.1f} | {:.1f} | {:.0f} | {:.2f} |\n", all[i].name, best[i].round_trip_8,
               best[i].round_trip_64k, best[i].round_trip_1m, best[i].rate_16m);
  }
}
