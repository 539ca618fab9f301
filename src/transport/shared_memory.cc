#include "transport/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "base/deadline.h"

namespace tessera::transport {
namespace {

constexpr std::uint32_t kMemoryMagic = 0x4d534d54;  // "TMSM"
constexpr std::size_t kRingBytes = std::size_t{1} << 20;

// How far writer and reader are, in bytes since the beginning. Each number has one side that writes it.
struct RingControl {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint32_t> is_reader_waiting;
  alignas(64) std::atomic<std::uint32_t> is_writer_waiting;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// What lies in the memory; both sides are of one machine and one version of this.
struct Layout {
  RingControl to_server, to_client;
  alignas(4096) std::byte bytes_to_server[kRingBytes];
  std::byte bytes_to_client[kRingBytes];
};

// What comes with the three descriptors.
struct Invitation {
  std::uint32_t magic = kMemoryMagic;
  std::uint32_t version = 1;
  std::uint64_t bytes = sizeof(Layout);
};

Error failed(const std::string& path, const std::string& what, int error) {
  return {ErrorCode::kUnavailable, fmt::format("shm:{}: {}: {}", path, what, std::strerror(error))};
}

// One mapping, until both streams over it are gone.
class Mapping {
 public:
  explicit Mapping(void* memory) : layout_(static_cast<Layout*>(memory)) {}
  Mapping(Mapping&& other) noexcept : layout_(std::exchange(other.layout_, nullptr)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (layout_ != nullptr) ::munmap(layout_, sizeof(Layout));
  }
  Layout& operator*() const { return *layout_; }

 private:
  Layout* layout_;
};

Result<Mapping> map(int memory, const std::string& path) {
  void* const mapped =
      ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (mapped == MAP_FAILED) return failed(path, "cannot map the memory", errno);
  return Mapping(mapped);
}

struct Ring {
  RingControl* control;
  std::byte* bytes;
};

void raise_event(int event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t count = ::write(event, &one, sizeof one);
}

class MemoryStream : public ByteStream {
 public:
  struct Parts {
    Mapping mapping;
    bool is_server;
    Descriptor socket, own_event, other_event;
    Peer peer;
  };
  explicit MemoryStream(Parts parts)
      : mapping_(std::move(parts.mapping)),
        socket_(std::move(parts.socket)),
        own_event_(std::move(parts.own_event)),
        other_event_(std::move(parts.other_event)),
        peer_(std::move(parts.peer)) {
    Layout& layout = *mapping_;
    const Ring to_server{&layout.to_server, layout.bytes_to_server};
    const Ring to_client{&layout.to_client, layout.bytes_to_client};
    in_ = parts.is_server ? to_server : to_client;
    out_ = parts.is_server ? to_client : to_server;
  }

  std::vector<int> descriptors() const override { return {socket_.get(), own_event_.get()}; }

  IoResult read(MutableBytes target) override {
    std::size_t there = 0;
    bool is_gone = false;
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::uint64_t filled = in_.control->written.load() - read_;
      if (filled > kRingBytes) return broken();
      there = filled;
      if (there > 0 || attempt == 1) break;
      // Looked at before the last look at the ring: what it wrote before it went is read.
      is_gone = is_peer_gone();
      in_.control->is_reader_waiting.store(1);
    }
    if (there == 0) return {.state = is_gone ? IoState::kEnd : IoState::kAgain};
    in_.control->is_reader_waiting.store(0);
    const std::size_t count = std::min(there, target.size());
    copy_out(target.first(count));
    read_ += count;
    in_.control->read.store(read_);
    if (in_.control->is_writer_waiting.exchange(0) != 0) raise_event(other_event_.get());
    return {.state = IoState::kDone, .bytes = count};
  }

  IoResult write(std::span<const iovec> parts) override {
    std::size_t room = 0;
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::uint64_t filled = written_ - out_.control->read.load();
      if (filled > kRingBytes) return broken();
      room = kRingBytes - filled;
      if (room > 0 || attempt == 1) break;
      out_.control->is_writer_waiting.store(1);
    }
    if (room == 0) return {.state = IoState::kAgain};
    out_.control->is_writer_waiting.store(0);
    std::size_t count = 0;
    for (const iovec& part : parts) {
      const std::size_t bytes = std::min(part.iov_len, room - count);
      copy_in(ConstBytes(static_cast<const std::byte*>(part.iov_base), bytes), written_ + count);
      count += bytes;
      if (bytes < part.iov_len) break;
    }
    written_ += count;
    out_.control->written.store(written_);
    if (out_.control->is_reader_waiting.exchange(0) != 0) raise_event(other_event_.get());
    return {.state = IoState::kDone, .bytes = count};
  }

  void shut() override {
    socket_ = Descriptor();
    own_event_ = Descriptor();
  }
  Peer peer() const override { return peer_; }

 private:
  static IoResult broken() {
    return {.state = IoState::kFailed, .why = "the rings say more than they can hold"};
  }
  bool is_peer_gone() const {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN | POLLRDHUP, .revents = 0};
    return ::poll(&waiting, 1, 0) > 0;  // nothing is sent there any more
  }
  void copy_out(MutableBytes target) const {
    const std::size_t at = read_ % kRingBytes, first = std::min(target.size(), kRingBytes - at);
    std::memcpy(target.data(), in_.bytes + at, first);
    if (first < target.size()) {
      std::memcpy(target.data() + first, in_.bytes, target.size() - first);
    }
  }
  void copy_in(ConstBytes source, std::uint64_t position) const {
    if (source.empty()) return;
    const std::size_t at = position % kRingBytes, first = std::min(source.size(), kRingBytes - at);
    std::memcpy(out_.bytes + at, source.data(), first);
    if (first < source.size()) {
      std::memcpy(out_.bytes, source.data() + first, source.size() - first);
    }
  }

  Mapping mapping_;
  Descriptor socket_, own_event_, other_event_;
  const Peer peer_;
  Ring in_, out_;
  // This side's own numbers; what the other side writes over them in the memory is not read.
  std::uint64_t read_ = 0, written_ = 0;
};

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

Peer peer_of(int socket, const std::string& path) {
  ucred user{};
  socklen_t bytes = sizeof user;
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &user, &bytes);
  return {.address = {.medium = Medium::kSharedMemory, .host = path},
          .process = user.pid,
          .user = user.uid};
}

Status send_invitation(int socket, const std::array<int, 3>& descriptors, const std::string& path) {
  Invitation invitation;
  iovec part{&invitation, sizeof invitation};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(head), descriptors.data(), sizeof descriptors);
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof invitation))
    return {};
  return failed(path, "cannot hand over the memory", errno);
}

// The descriptors that came, which belong to the caller; fewer than three where it was no invitation.
std::vector<Descriptor> receive_invitation(int socket) {
  Invitation invitation{.magic = 0, .version = 0, .bytes = 0};
  iovec part{&invitation, sizeof invitation};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  std::vector<Descriptor> received;
  const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= head->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(head) + at, sizeof descriptor);
      received.emplace_back(descriptor);
    }
  }
  const Invitation expected;
  if (count != static_cast<ssize_t>(sizeof invitation) ||
      std::memcmp(&invitation, &expected, sizeof expected) != 0) {
    received.clear();
  }
  return received;
}

bool has_size(int memory) {
  struct stat found{};
  return ::fstat(memory, &found) == 0 && found.st_size == static_cast<off_t>(sizeof(Layout)) &&
         (::fcntl(memory, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
}

// Whether somebody listens at the socket that is there.
enum class Found : std::uint8_t { kNothing, kDead, kAlive };

Found look_at(const std::string& path) {
  const sockaddr_un address = address_of(path);
  const Descriptor asking(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int connected =
      ::connect(asking.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (connected == 0 || errno == EAGAIN) return Found::kAlive;
  struct stat found{};
  const bool is_refused = errno == ECONNREFUSED;
  const bool is_own_socket =
      ::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) && found.st_uid == ::geteuid();
  return is_refused && is_own_socket ? Found::kDead : Found::kNothing;
}

}  // namespace

// Made beside its place and then put there: what is at a path that nobody listens at is dead.
Result<Descriptor> listen_at(const std::string& path) {
  const std::string beside = path + ".new";
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return failed(path, "cannot make a socket", errno);
  const Found found = look_at(path);
  if (found == Found::kAlive) return failed(path, "somebody listens there already", EADDRINUSE);
  if (found == Found::kNothing && ::access(path.c_str(), F_OK) == 0) {
    return failed(path, "cannot listen there", EADDRINUSE);
  }
  ::unlink(beside.c_str());
  const sockaddr_un address = address_of(beside);
  // The mode counts from bind() on: nobody else may come in between.
  ::fchmod(socket.get(), 0600);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failed(path, "cannot listen there", errno);
  }
  if (::chmod(beside.c_str(), 0600) != 0 || ::listen(socket.get(), 128) != 0 ||
      ::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    return failed(path, "cannot listen there", error);
  }
  return socket;
}

void remove_dead_sockets(const std::string& folder, const std::string& beginning) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end; at != end;
       at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(beginning) || at->path().string().size() >= sizeof(sockaddr_un::sun_path))
      continue;
    const bool is_numbered =
        name.find_first_not_of("0123456789", beginning.size()) == std::string::npos;
    if (is_numbered && look_at(at->path().string()) == Found::kDead) {
      ::unlink(at->path().c_str());
    }
  }
}

void remove_socket(const std::string& path) { ::unlink(path.c_str()); }

Result<std::unique_ptr<ByteStream>> share_memory(Descriptor socket, const std::string& path) {
  const Descriptor memory(::memfd_create("tessera", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0 || ::ftruncate(memory.get(), sizeof(Layout)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed(path, "cannot make the memory", errno);
  }
  Descriptor own(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Descriptor other(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (own.get() < 0 || other.get() < 0) return failed(path, "cannot make an event", errno);
  TESSERA_TRY(Mapping mapping, map(memory.get(), path));
  Layout& layout = *mapping;
  for (RingControl* control : {&layout.to_server, &layout.to_client}) {
    new (control) RingControl{};
    control->is_reader_waiting.store(1);
  }
  TESSERA_RETURN_IF_ERROR(
      send_invitation(socket.get(), {memory.get(), other.get(), own.get()}, path));
  Peer peer = peer_of(socket.get(), path);
  return std::unique_ptr<ByteStream>(
      std::make_unique<MemoryStream>(MemoryStream::Parts{.mapping = std::move(mapping),
                                                         .is_server = true,
                                                         .socket = std::move(socket),
                                                         .own_event = std::move(own),
                                                         .other_event = std::move(other),
                                                         .peer = std::move(peer)}));
}

Result<std::unique_ptr<ByteStream>> join_memory(const std::string& path,
                                                Clock::time_point deadline) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = address_of(path);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failed(path, "nobody there", errno);
  }
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, static_cast<int>(time_until(deadline).count())) <= 0) {
    return Error{ErrorCode::kUnavailable, fmt::format("shm:{}: no answer in time", path)};
  }
  std::vector<Descriptor> received = receive_invitation(socket.get());
  if (received.size() != 3 || !has_size(received[0].get())) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("shm:{}: who listens there speaks another protocol or version", path)};
  }
  TESSERA_TRY(Mapping mapping, map(received[0].get(), path));
  Peer peer = peer_of(socket.get(), path);
  return std::unique_ptr<ByteStream>(
      std::make_unique<MemoryStream>(MemoryStream::Parts{.mapping = std::move(mapping),
                                                         .is_server = false,
                                                         .socket = std::move(socket),
                                                         .own_event = std::move(received[1]),
                                                         .other_event = std::move(received[2]),
                                                         .peer = std::move(peer)}));
}

}  // namespace tessera::transport
