#include "store/local_etcd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "store/etcd_store.h"

namespace tessera::store {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A socket that keeps a port of loopback until etcd is to take it.
class KeptPort {
 public:
  static Result<KeptPort> keep() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    KeptPort port(socket, 0);
    if (socket < 0 || ::bind(socket, general, bytes) != 0 ||
        ::getsockname(socket, general, &bytes) != 0) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("local etcd: no port on loopback: {}", std::strerror(errno))};
    }
    port.port_ = ntohs(address.sin_port);
    return port;
  }
  KeptPort(KeptPort&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), port_(other.port_) {}
  KeptPort& operator=(KeptPort&&) = delete;
  ~KeptPort() {
    if (socket_ >= 0) ::close(socket_);
  }
  int port() const { return port_; }

 private:
  KeptPort(int socket, int port) : socket_(socket), port_(port) {}
  int socket_, port_;
};

std::string tail_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr std::size_t kShown = 1000;
  return text.size() <= kShown ? text : text.substr(text.size() - kShown);
}

}  // namespace

Result<std::string> find_etcd(const std::string& program) {
  const auto is_program = [](const std::string& path) {
    return ::access(path.c_str(), X_OK) == 0 && !std::filesystem::is_directory(path);
  };
  if (program.find('/') != std::string::npos) {
    if (is_program(program)) return program;
  } else {
    const char* const path = std::getenv("PATH");
    std::string rest = path == nullptr ? "/usr/bin:/bin" : path;
    while (!rest.empty()) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      const std::string found = rest.substr(0, colon) + "/" + program;
      if (colon > 0 && is_program(found)) return found;
      rest.erase(0, std::min(colon + 1, rest.size()));
    }
  }
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("no program '{}'; install etcd (Debian: etcd-server), or do without: the "
                  "store in the process needs none",
                  program)};
}

Result<std::unique_ptr<LocalEtcd>> LocalEtcd::start(const LocalEtcdOptions& options) {
  if (options.members < 1 || options.members > 9) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("local etcd: {} members, allowed are 1 to 9", options.members)};
  }
  std::unique_ptr<LocalEtcd> etcd(new LocalEtcd(options));
  TESSERA_TRY(etcd->program_, find_etcd(options.program));
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error || options.folder.empty()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("local etcd: cannot make the folder '{}'{}{}", options.folder,
                             error ? ": " : "", error ? error.message() : "")};
  }
  std::vector<KeptPort> ports;
  for (int i = 0; i < 2 * options.members; ++i) {
    TESSERA_TRY(KeptPort port, KeptPort::keep());
    ports.push_back(std::move(port));
  }
  std::vector<int> numbers;
  for (const KeptPort& port : ports) numbers.push_back(port.port());
  std::vector<std::string> reached_at;  // by other members
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.members); ++i) {
    const std::string listens = fmt::format("127.0.0.1:{}", numbers[2 * i + 1]);
    reached_at.push_back(options.way_to_member ? options.way_to_member(listens) : listens);
    etcd->endpoints_.push_back(fmt::format(
        "{}:{}", options.host.empty() ? options.address : options.host, numbers[2 * i]));
  }
  for (int i = 0; i < options.members; ++i) {
    etcd->members_.push_back({.process = -1,
                              .arguments = etcd->arguments_of(i, numbers, reached_at),
                              .log = fmt::format("{}/m{}.log", options.folder, i)});
  }
  ports.clear();
  for (Member& member : etcd->members_) TESSERA_RETURN_IF_ERROR(etcd->launch(member));
  for (std::size_t i = 0; i < etcd->members_.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(etcd->wait_until_healthy(i));
  }
  return etcd;
}

std::vector<std::string> LocalEtcd::arguments_of(int member, const std::vector<int>& ports,
                                                 const std::vector<std::string>& reached_at) const {
  std::vector<std::string> cluster;
  for (std::size_t i = 0; i < reached_at.size(); ++i) {
    cluster.push_back(fmt::format("m{}=http://{}", i, reached_at[i]));
  }
  const bool has_tls = !options_.authority_file.empty();
  const auto at = 2 * static_cast<std::size_t>(member);
  const char* const scheme = has_tls ? "https" : "http";
  const std::string client = fmt::format("{}://{}:{}", scheme, options_.address, ports[at]);
  const std::string peer = fmt::format("http://127.0.0.1:{}", ports[at + 1]);
  std::vector<std::string> arguments = {
      program_,
      fmt::format("--name=m{}", member),
      fmt::format("--data-dir={}/m{}", options_.folder, member),
      "--listen-client-urls=" + client,
      fmt::format("--advertise-client-urls={}://{}", scheme, endpoints_.at(at / 2)),
      "--listen-peer-urls=" + peer,
      "--initial-advertise-peer-urls=http://" + reached_at.at(at / 2),
      fmt::format("--initial-cluster={}", fmt::join(cluster, ",")),
      "--initial-cluster-state=new",
      "--initial-cluster-token=tessera",
      fmt::format("--heartbeat-interval={}", options_.heartbeat.count()),
      fmt::format("--election-timeout={}", options_.election.count()),
      "--logger=zap",
      "--log-level=warn"};
  if (has_tls) {
    arguments.insert(
        arguments.end(),
        {"--client-cert-auth", "--trusted-ca-file=" + options_.authority_file,
         "--cert-file=" + options_.certificate_file, "--key-file=" + options_.key_file});
  }
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  return arguments;
}

Status LocalEtcd::launch(Member& member) {
  std::vector<char*> arguments;
  for (std::string& word : member.arguments) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int log = ::open(member.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    // Between fork and exec only what may be called in a process with several threads.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  const int error = errno;
  if (log >= 0) ::close(log);
  if (nothing >= 0) ::close(nothing);
  if (child < 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("local etcd: cannot start '{}': {}", program_, std::strerror(error))};
  }
  member.process = child;
  return {};
}

Status LocalEtcd::wait_until_healthy(std::size_t member) {
  Member& waited = members_.at(member);
  const Clock::time_point deadline = deadline_after(options_.start_time);
  TESSERA_TRY(const std::unique_ptr<Store> store,
              connect_etcd({.endpoints = {endpoints_[member]},
                            .authority_file = options_.authority_file,
                            .certificate_file = options_.certificate_file,
                            .key_file = options_.key_file}));
  for (;;) {
    const Result<MaybeEntry> answer = store->read("/", Milliseconds(1000));
    if (answer.ok()) return {};
    if (::waitpid(waited.process, nullptr, WNOHANG) == waited.process) {
      waited.process = -1;
      return Error{ErrorCode::kUnavailable,
                   fmt::format("local etcd: member {} ended; the end of '{}':\n{}", member,
                               waited.log, tail_of(waited.log))};
    }
    if (Clock::now() > deadline) {
      return answer.error().with_context(
          fmt::format("local etcd: member {} is not healthy after {} ms (log '{}')", member,
                      options_.start_time.count(), waited.log));
    }
  }
}

void LocalEtcd::kill(int member) {
  pid_t& process = members_.at(static_cast<std::size_t>(member)).process;
  if (process < 0) return;
  ::kill(process, SIGKILL);
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
  process = -1;
}

void LocalEtcd::pause(int member) { ::kill(process(member), SIGSTOP); }
void LocalEtcd::resume(int member) { ::kill(process(member), SIGCONT); }

Status LocalEtcd::restart(int member) {
  const auto index = static_cast<std::size_t>(member);
  TESSERA_RETURN_IF_ERROR(launch(members_.at(index)));
  return wait_until_healthy(index);
}

LocalEtcd::~LocalEtcd() {
  for (std::size_t i = 0; i < members_.size(); ++i) kill(static_cast<int>(i));
}

}  // namespace tessera::store
