#include "store/etcd/endpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/secret_file.h"

namespace tessera::store::etcd {
namespace {

constexpr Milliseconds kBetweenRounds{20};
constexpr Milliseconds kForConnection{30};   // of a member that refused it a moment ago
constexpr int kMessageBytesMax = 512 << 20;  // of an answer; a prefix comes in one piece

Result<std::string> read_file(const std::string& path, const char* role) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.good() || file.eof()) {
    if (!text.empty()) return text;
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("etcd: the file of the {} '{}' is empty or cannot be read", role, path)};
}

Result<std::shared_ptr<grpc::ChannelCredentials>> credentials_of(const EtcdOptions& options) {
  if (options.authority_file.empty()) {
    if (!options.certificate_file.empty() || !options.key_file.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "etcd: a certificate or key without the authority that signs the servers'; name "
                   "its file"};
    }
    return grpc::InsecureChannelCredentials();
  }
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "etcd: a certificate needs its key, and a key its certificate; name both files or "
                 "none"};
  }
  grpc::SslCredentialsOptions tls;
  TESSERA_TRY(tls.pem_root_certs, read_file(options.authority_file, "authority"));
  if (!options.certificate_file.empty()) {
    TESSERA_TRY(tls.pem_cert_chain, read_file(options.certificate_file, "certificate"));
    TESSERA_RETURN_IF_ERROR(check_secret_file(options.key_file));
    TESSERA_TRY(tls.pem_private_key, read_file(options.key_file, "key"));
  }
  return grpc::SslCredentials(tls);
}

// gRPC prints what goes wrong, which is in our errors; for this process it is silent unless asked for
// by its own variable.
void silence_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // etcd ends connections that ask more often than every 5 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  return arguments;
}

// etcd has certainly not carried out what it refuses in this way.
bool is_refused_before(const grpc::Status& status) {
  const std::string& text = status.error_message();
  return text == "etcdserver: no leader" || text == "etcdserver: not capable" ||
         text == "etcdserver: server stopped" || text == "etcdserver: too many requests";
}

bool is_token_refused(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         status.error_message() == "etcdserver: revision of auth store is old";
}

// The call came nowhere, or what became of it is not known.
bool is_transient(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::ABORTED:
      return true;
    default:
      return false;
  }
}

}  // namespace

// What one call has seen so far.
struct Endpoints::Round {
  Repeat repeat = Repeat::kAllowed;
  grpc::Status status{};              // of kAnswered
  std::vector<std::string> failed{};  // of each endpoint: why it failed when it was asked last
  bool was_reached = false, has_no_leader = false, is_unknown = false;
};

Result<std::shared_ptr<Endpoints>> Endpoints::make(const EtcdOptions& options) {
  if (options.endpoints.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "etcd: no endpoint, at least one HOST:PORT is needed"};
  }
  if (options.user.empty() != options.password_file.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "etcd: a user needs the file of the password, and the file its user"};
  }
  TESSERA_TRY(const std::shared_ptr<grpc::ChannelCredentials> credentials, credentials_of(options));
  silence_grpc();
  std::shared_ptr<Endpoints> made(new Endpoints);
  made->has_tls_ = !options.authority_file.empty();
  made->attempt_time_ = std::max(options.attempt_time, Milliseconds(1));
  made->user_ = options.user;
  if (!options.user.empty()) {
    TESSERA_RETURN_IF_ERROR(check_secret_file(options.password_file));
    TESSERA_TRY(made->password_, read_file(options.password_file, "password"));
    if (made->password_.ends_with('\n')) made->password_.pop_back();
  }
  for (const std::string& address : options.endpoints) {
    const std::size_t colon = address.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == address.size() ||
        address.find('/') != std::string::npos) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("etcd: endpoint '{}', allowed is HOST:PORT", address)};
    }
    made->endpoints_.push_back(std::make_unique<Endpoint>());
    Endpoint& endpoint = *made->endpoints_.back();
    endpoint.address = address;
    endpoint.channel = grpc::CreateCustomChannel(address, credentials, channel_arguments());
    endpoint.kv = etcdserverpb::KV::NewStub(endpoint.channel);
    endpoint.lease = etcdserverpb::Lease::NewStub(endpoint.channel);
    endpoint.watch = etcdserverpb::Watch::NewStub(endpoint.channel);
    endpoint.auth = etcdserverpb::Auth::NewStub(endpoint.channel);
  }
  return made;
}

std::string Endpoints::describe() const {
  std::vector<std::string> addresses;
  for (const auto& endpoint : endpoints_) addresses.push_back(endpoint->address);
  return fmt::format("etcd {}", fmt::join(addresses, ", "));
}

bool Endpoints::connect(Endpoint& endpoint, Clock::time_point deadline) {
  for (bool was_refused = false;;) {
    const grpc_connectivity_state state = endpoint.channel->GetState(true);
    if (state == GRPC_CHANNEL_READY) return true;
    // gRPC connects again while somebody waits for it: once more is enough.
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      if (was_refused) return false;
      was_refused = true;
      const Clock::time_point soon = std::min(deadline, Clock::now() + kForConnection);
      if (!endpoint.channel->WaitForStateChange(state, wall_deadline(soon))) return false;
      continue;
    }
    if (state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (!endpoint.channel->WaitForStateChange(state, wall_deadline(deadline))) return false;
  }
}

grpc::Status Endpoints::prepare(Endpoint& endpoint, grpc::ClientContext& context) {
  // A member without a leader refuses at once, where it would let the call wait.
  context.AddMetadata("hasleader", "true");
  if (user_.empty()) return grpc::Status::OK;
  std::string token;
  {
    const std::lock_guard lock(token_mutex_);
    token = token_;
  }
  if (token.empty()) {
    grpc::ClientContext own;
    // A stream has no deadline.
    own.set_deadline(std::min(context.deadline(), wall_deadline(Clock::now() + attempt_time_)));
    etcdserverpb::AuthenticateRequest request;
    request.set_name(user_);
    request.set_password(password_);
    etcdserverpb::AuthenticateResponse response;
    const grpc::Status status = endpoint.auth->Authenticate(&own, request, &response);
    if (!status.ok()) return status;
    token = response.token();
    const std::lock_guard lock(token_mutex_);
    token_ = token;
  }
  context.AddMetadata("token", token);
  return grpc::Status::OK;
}

grpc::Status Endpoints::ask_quorum(Endpoint& endpoint,
                                   std::chrono::system_clock::time_point deadline) {
  grpc::ClientContext context;
  context.set_deadline(deadline);
  grpc::Status prepared = prepare(endpoint, context);
  if (!prepared.ok()) return prepared;
  etcdserverpb::RangeRequest request;
  request.set_key(std::string(1, '\0'));
  request.set_count_only(true);
  etcdserverpb::RangeResponse ignored;
  grpc::Status status = endpoint.kv->Range(&context, request, &ignored);
  // etcd looks at who may read behind the quorum.
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) return grpc::Status::OK;
  return status;
}

void Endpoints::forget_token() {
  const std::lock_guard lock(token_mutex_);
  token_.clear();
}

Endpoints::Verdict Endpoints::try_one(std::size_t index, const Attempt& attempt,
                                      Clock::time_point deadline, std::size_t left, Round& round) {
  Endpoint& endpoint = *endpoints_[index];
  std::string& failed = round.failed[index];
  const Clock::time_point now = Clock::now();
  const Clock::time_point own = std::min(deadline, now + attempt_time_);
  // A member that lets one wait leaves the others their share of the time.
  const Clock::duration share = (deadline - now) / static_cast<Clock::rep>(left);
  if (!connect(endpoint, std::min(own, now + share))) {
    failed = has_tls_ ? "cannot be reached, or TLS was refused" : "cannot be reached";
    return Verdict::kNext;
  }
  round.was_reached = true;
  grpc::ClientContext context;
  grpc::Status status;
  if (round.repeat == Repeat::kAllowed) {
    context.set_deadline(wall_deadline(own));
  } else {
    // What may not be asked again has all the time, and is asked where a quorum answered just now.
    context.set_deadline(wall_deadline(deadline));
    const Clock::duration since =
        Clock::now().time_since_epoch() - Clock::duration(endpoint.last_answer);
    if (since > attempt_time_) status = ask_quorum(endpoint, wall_deadline(own));
  }
  if (status.ok()) status = prepare(endpoint, context);
  const bool was_sent = status.ok();
  if (was_sent) status = attempt(endpoint, context);
  round.status = status;
  if (status.ok()) {
    endpoint.last_answer = Clock::now().time_since_epoch().count();
    return Verdict::kAnswered;
  }
  endpoint.last_answer = 0;
  const bool has_no_token = !user_.empty() && is_token_refused(status);
  if (has_no_token) forget_token();
  if (!has_no_token && !is_refused_before(status) && !is_transient(status)) {
    return Verdict::kAnswered;
  }
  failed = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ? "no answer in time"
                                                                      : status.error_message();
  round.has_no_leader |= status.error_message() == "etcdserver: no leader";
  const bool is_safe =
      !was_sent || has_no_token || is_refused_before(status) || round.repeat == Repeat::kAllowed;
  round.is_unknown |= !is_safe;
  return is_safe ? Verdict::kNext : Verdict::kUnknown;
}

Result<grpc::Status> Endpoints::call(const std::string& what, Repeat repeat, Milliseconds timeout,
                                     const Attempt& attempt) {
  const Clock::time_point deadline = deadline_after(timeout);
  const std::size_t count = endpoints_.size();
  Round round{.repeat = repeat};
  round.failed.assign(count, "not asked, the time was over");
  for (;;) {
    const std::size_t first = preferred_;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = (first + i) % count;
      const Verdict verdict = try_one(index, attempt, deadline, count - i, round);
      if (verdict == Verdict::kAnswered) {
        preferred_ = index;
        return round.status;
      }
      if (verdict == Verdict::kUnknown) {
        preferred_ = (index + 1) % count;
        return give_up(what, timeout, round);
      }
      if (i + 1 < count && Clock::now() >= deadline) break;
    }
    if (Clock::now() + kBetweenRounds >= deadline) return give_up(what, timeout, round);
    std::this_thread::sleep_for(kBetweenRounds);
  }
}

Error Endpoints::give_up(const std::string& what, Milliseconds timeout, const Round& round) const {
  const char* reason = "no answer in time: no quorum, or slow";
  if (!round.was_reached) reason = "no member can be reached";
  if (round.has_no_leader) reason = "no quorum";
  std::vector<std::string> failed;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    failed.push_back(fmt::format("{}: {}", endpoints_[i]->address, round.failed[i]));
  }
  const char* rest =
      round.is_unknown ? "; whether it was carried out is not known: read again" : "";
  return {ErrorCode::kUnavailable,
          fmt::format("{}: {}: {} within {} ms ({}){}", describe(), what, reason, timeout.count(),
                      fmt::join(failed, "; "), rest)};
}

std::chrono::system_clock::time_point wall_deadline(Clock::time_point deadline) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline - Clock::now());
}

std::string range_end_of(const std::string& prefix) {
  std::string end = prefix;
  while (!end.empty()) {
    if (end.back() != '\xff') {
      end.back() = static_cast<char>(end.back() + 1);
      return end;
    }
    end.pop_back();
  }
  return std::string(1, '\0');  // to the end of all keys
}

Entry entry_of(const mvccpb::KeyValue& pair) {
  return {.key = pair.key(),
          .value = pair.value(),
          .created = pair.create_revision(),
          .modified = pair.mod_revision(),
          .lease = pair.lease()};
}

}  // namespace tessera::store::etcd
