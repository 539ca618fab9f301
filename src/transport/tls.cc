#include "transport/tls.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/secret_file.h"
#include "transport/frame.h"

namespace tessera::transport {
namespace {

std::string tls_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown error";
  // Of the system, as for a file that is not there: OpenSSL has no text for these.
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:x}", code);
}

bool is_transient(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// OpenSSL's own socket writes with a signal where the peer is gone.
int bio_write(BIO* bio, const char* data, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = ::send(*static_cast<const int*>(BIO_get_data(bio)), data,
                               static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
  if (count < 0 && is_transient(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

int bio_read(BIO* bio, char* data, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t count =
      ::recv(*static_cast<const int*>(BIO_get_data(bio)), data, static_cast<std::size_t>(bytes), 0);
  if (count < 0 && is_transient(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(count);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tessera socket");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

std::string common_name(X509* certificate) {
  char name[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
  return name;
}

class TlsStream : public ByteStream {
 public:
  TlsStream(SSL* ssl, int descriptor, Peer peer)
      : socket_(descriptor), number_(descriptor), ssl_(ssl), peer_(std::move(peer)) {
    BIO* const bio = BIO_new(bio_method());
    BIO_set_data(bio, &number_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    SSL_set_app_data(ssl_, &peer_);
    SSL_set_verify(ssl_, SSL_get_verify_mode(ssl_), note_refused);
  }
  ~TlsStream() override { SSL_free(ssl_); }

  std::vector<int> descriptors() const override { return {socket_.get()}; }

  IoResult handshake() override {
    const std::lock_guard lock(mutex_);
    if (!is_tls_) {
      const IoResult first = look_at_first_bytes();
      if (first.state != IoState::kDone) return first;
    }
    const int done = SSL_do_handshake(ssl_);
    // They may have come when nothing was there to be looked at.
    if (done != 1 && !is_tls_ && ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER) {
      ERR_clear_error();
      return refuse_plain_peer();
    }
    if (done != 1) return result_of(done, "TLS");
    if (X509* const certificate = SSL_get1_peer_certificate(ssl_)) {
      peer_.certificate_name = common_name(certificate);
      X509_free(certificate);
    }
    return {.state = IoState::kDone};
  }

  IoResult read(MutableBytes target) override {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    const int done = SSL_read_ex(ssl_, target.data(), target.size(), &count);
    if (done == 1) return {.state = IoState::kDone, .bytes = count};
    return result_of(done, "TLS");
  }

  IoResult write(std::span<const iovec> parts) override {
    const std::lock_guard lock(mutex_);
    std::size_t written = 0;
    for (const iovec& part : parts) {
      std::size_t count = 0;
      const int done = SSL_write_ex(ssl_, part.iov_base, part.iov_len, &count);
      if (done != 1 && written == 0) return result_of(done, "TLS");
      written += count;
      if (done != 1 || count < part.iov_len) break;
    }
    return {.state = IoState::kDone, .bytes = written};
  }

  void shut() override {
    socket_ = Descriptor();
    number_ = -1;
  }
  Peer peer() const override { return peer_; }

 private:
  // Whose certificate is not good is forgotten with the handshake.
  static int note_refused(int is_good, X509_STORE_CTX* check) {
    const int place = SSL_get_ex_data_X509_STORE_CTX_idx();
    auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(check, place));
    X509* const certificate = X509_STORE_CTX_get0_cert(check);
    if (is_good == 0 && ssl != nullptr && certificate != nullptr) {
      static_cast<Peer*>(SSL_get_app_data(ssl))->certificate_name = common_name(certificate);
    }
    return is_good;
  }
  // A peer without TLS begins with a frame of ours. It is told so in TLS's own words, which OpenSSL keeps to
  // itself: else it would see the end of a connection, and try again.
  IoResult look_at_first_bytes() {
    unsigned char bytes[sizeof kFrameMagic];
    const ssize_t count = ::recv(number_, bytes, sizeof bytes, MSG_PEEK);
    if (count <= 0) return {.state = IoState::kDone};  // nothing yet, or what OpenSSL will say
    const auto known = static_cast<std::size_t>(count);
    const bool is_frame = std::memcmp(bytes, &kFrameMagic, known) == 0;
    is_tls_ = !is_frame;
    if (!is_frame) return {.state = IoState::kDone};
    if (known < sizeof bytes) return {};
    return refuse_plain_peer();
  }
  IoResult refuse_plain_peer() {
    // What lies unread when a socket is closed takes what was sent with it.
    unsigned char rest[256];
    while (::recv(number_, rest, sizeof rest, 0) > 0) {
    }
    constexpr unsigned char kProtocolVersionAlert[] = {21, 3, 1, 0, 2, 2, 70};  // RFC 8446, 6
    (void)::send(number_, kProtocolVersionAlert, sizeof kProtocolVersionAlert, MSG_NOSIGNAL);
    return {.state = IoState::kFailed, .why = kPeerHasNoTls};
  }
  IoResult result_of(int done, const char* what) {
    const int error = SSL_get_error(ssl_, done);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
    if (error == SSL_ERROR_ZERO_RETURN) return {.state = IoState::kEnd};
    const long verified = SSL_get_verify_result(ssl_);
    if (verified != X509_V_OK) {
      ERR_clear_error();
      return {.state = IoState::kFailed,
              .why = fmt::format("{}: the peer's certificate: {}", what,
                                 X509_verify_cert_error_string(verified))};
    }
    const unsigned long code = ERR_peek_error();
    const bool is_end = (error == SSL_ERROR_SYSCALL && code == 0) ||
                        ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (is_end && SSL_is_init_finished(ssl_) != 0) {
      ERR_clear_error();
      return {.state = IoState::kEnd};
    }
    if (is_end) {
      ERR_clear_error();
      return {.state = IoState::kEnd,
              .why = fmt::format("{}: the peer left during the handshake", what)};
    }
    return {.state = IoState::kFailed, .why = fmt::format("{}: {}", what, tls_error())};
  }

  Descriptor socket_;
  int number_;           // the socket's, for OpenSSL's reading and writing
  std::mutex mutex_;     // an SSL object is used by one thread at a time
  bool is_tls_ = false;  // as the peer's first bytes say
  SSL* const ssl_;
  Peer peer_;
};

}  // namespace

struct TlsContext::State {
  SSL_CTX* context = nullptr;
  ~State() { SSL_CTX_free(context); }
};

TlsContext::TlsContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsContext::~TlsContext() = default;

Result<std::unique_ptr<TlsContext>> TlsContext::make(const TlsFiles& files) {
  auto state = std::make_unique<State>();
  state->context = SSL_CTX_new(TLS_method());
  SSL_CTX* const context = state->context;
  const auto refused = [](const char* what, const std::string& path) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("TLS: the {} in '{}': {}", what, path, tls_error())};
  };
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  if (SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr) != 1) {
    return refused("authority", files.authority);
  }
  if (files.certificate.empty() && files.key.empty()) {  // a client that shows none
    return std::unique_ptr<TlsContext>(new TlsContext(std::move(state)));
  }
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return refused("certificate", files.certificate);
  }
  TESSERA_RETURN_IF_ERROR(check_secret_file(files.key));
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return refused("key", files.key);
  }
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(state)));
}

std::unique_ptr<ByteStream> TlsContext::client(int descriptor, Peer peer,
                                               const std::string& server_name) const {
  SSL* const ssl = SSL_new(state_->context);
  SSL_set_connect_state(ssl);
  unsigned char number[sizeof(in6_addr)];
  const bool is_number = ::inet_pton(AF_INET, server_name.c_str(), number) == 1 ||
                         ::inet_pton(AF_INET6, server_name.c_str(), number) == 1;
  if (is_number) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_name.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl, server_name.c_str());
    SSL_set1_host(ssl, server_name.c_str());
  }
  return std::make_unique<TlsStream>(ssl, descriptor, std::move(peer));
}

std::unique_ptr<ByteStream> TlsContext::server(int descriptor, Peer peer) const {
  SSL* const ssl = SSL_new(state_->context);
  SSL_set_accept_state(ssl);
  return std::make_unique<TlsStream>(ssl, descriptor, std::move(peer));
}

}  // namespace tessera::transport
