#include "transport/ucx.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "transport/tcp.h"
#include "transport/ucx_library.h"

namespace tessera::transport {
namespace {

constexpr std::size_t kPartsMax = 64;
// UCX takes what comes and keeps it, without a bound: so one side sends only so much that the other one
// has not said it has read. It says so in active messages, each with the bytes read since the beginning.
constexpr std::uint64_t kWindowBytes = std::uint64_t{8} << 20;
constexpr unsigned kCreditMessage = 1;

// Of what make() has loaded: nothing below is there without it.
const UcxLibrary& ucx() { return *load_ucx().value(); }

Error failed(const Address& address, const char* what, ucs_status_t status) {
  return {ErrorCode::kUnavailable,
          fmt::format("{}: {}: {}", address.to_string(), what, ucx().status_string(status))};
}

class UcxStream;

// One context, one worker. Everything of UCX happens with the mutex.
class Worker : public Pollable {
 public:
  static Result<std::shared_ptr<Worker>> make() {
    TESSERA_RETURN_IF_ERROR(load_ucx());
    auto worker = std::make_shared<Worker>();
    const ucs_status_t status = worker->open();
    if (status == UCS_OK) return worker;
    return Error{ErrorCode::kUnavailable,
                 fmt::format("UCX cannot be started: {}", ucx().status_string(status))};
  }
  ~Worker() override {
    if (worker_ != nullptr) ucx().worker_destroy(worker_);
    if (context_ != nullptr) ucx().cleanup(context_);
  }

  std::mutex mutex;
  ucp_worker_h get() const { return worker_; }
  // With the mutex: what happens next is looked at.
  void signal() { ucx().worker_signal(worker_); }

  int event() const {
    int descriptor = -1;
    ucx().worker_get_efd(worker_, &descriptor);
    return descriptor;
  }

  bool on_ready() override;
  void on_tick(Clock::time_point) override { (void)on_ready(); }
  void on_loop_end() override {}
  // Behind the loop's end: what ended connections still have to say.
  void finish();

  // Of each stream that is open, for credits.
  std::unordered_map<ucp_ep_h, UcxStream*> streams;
  // Streams that came in during progress, with whom they are for.
  std::vector<std::function<void()>> accepted;

 private:
  ucs_status_t open() {
    // It prints what goes wrong, which is in our errors.
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucx().global_opts_set_value("LOG_LEVEL", "fatal");
    ucp_config_t* config = nullptr;
    if (const ucs_status_t status = ucx().config_read(nullptr, nullptr, &config);
        status != UCS_OK) {
      return status;
    }
    if (std::getenv("UCX_TLS") == nullptr) ucx().config_modify(config, "TLS", "tcp");
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_STREAM | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    ucs_status_t status =
        ucx().init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
    ucx().config_release(config);
    if (status != UCS_OK) return status;
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    status = ucx().worker_create(context_, &worker, &worker_);
    if (status != UCS_OK) return status;
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kCreditMessage;
    handler.cb = take_credit;
    handler.arg = this;
    return ucx().worker_set_am_recv_handler(worker_, &handler);
  }

  static ucs_status_t take_credit(void* self, const void* header, std::size_t header_bytes, void*,
                                  std::size_t, const ucp_am_recv_param_t* parameters);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

void raise_event(int event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t count = ::write(event, &one, sizeof one);
}

// Calls into UCX may wait for the other side only in shut(), where it is told to give up.
class UcxStream : public ByteStream {
 public:
  UcxStream(std::shared_ptr<Worker> worker, Peer peer)
      : worker_(std::move(worker)),
        peer_(std::move(peer)),
        event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~UcxStream() override { UcxStream::shut(); }

  // With the worker's mutex.
  ucs_status_t open(ucp_ep_params_t parameters) {
    parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                             UCP_EP_PARAM_FIELD_USER_DATA;
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;  // else a killed peer is never told
    parameters.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
      static_cast<UcxStream*>(self)->fail(status);
    };
    parameters.err_handler.arg = this;
    parameters.user_data = this;
    const ucs_status_t status = ucx().ep_create(worker_->get(), &parameters, &endpoint_);
    if (status == UCS_OK) worker_->streams[endpoint_] = this;
    return status;
  }
  void take_credit(std::uint64_t bytes) {
    if (bytes <= acknowledged_ || bytes > sent_) return;
    acknowledged_ = bytes;
    wake();
  }
  void wake() { raise_event(event_.get()); }

  std::vector<int> descriptors() const override { return {event_.get()}; }

  IoResult read(MutableBytes target) override {
    const std::lock_guard lock(worker_->mutex);
    if (chunk_ == nullptr && endpoint_ != nullptr) {
      const ucs_status_ptr_t data = ucx().stream_recv_data_nb(endpoint_, &chunk_bytes_);
      if (data != nullptr && !UCS_PTR_IS_ERR(data)) chunk_ = data;
      if (UCS_PTR_IS_ERR(data)) fail(UCS_PTR_STATUS(data));
    }
    if (chunk_ == nullptr) return nothing();
    const std::size_t count = std::min(target.size(), chunk_bytes_ - chunk_taken_);
    std::memcpy(target.data(), static_cast<const std::byte*>(chunk_) + chunk_taken_, count);
    chunk_taken_ += count;
    if (chunk_taken_ == chunk_bytes_) release_chunk();
    received_ += count;
    if (received_ - told_ >= kWindowBytes / 4) tell_credit();
    return {.state = IoState::kDone, .bytes = count};
  }

  IoResult write(std::span<const iovec> parts) override {
    const std::lock_guard lock(worker_->mutex);
    if (failure_ != UCS_OK || endpoint_ == nullptr) return nothing();
    if (sending_ != nullptr) {
      const ucs_status_t status = ucx().request_check_status(sending_);
      if (status == UCS_INPROGRESS) return {};
      ucx().request_free(std::exchange(sending_, nullptr));
      if (status == UCS_OK) return {.state = IoState::kDone, .bytes = sending_bytes_};
      fail(status);
      return nothing();
    }
    return start_write(parts);
  }

  void shut() override {
    const std::lock_guard lock(worker_->mutex);
    if (endpoint_ == nullptr) return;
    worker_->streams.erase(endpoint_);
    if (chunk_ != nullptr) release_chunk();
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t closing =
        ucx().ep_close_nbx(std::exchange(endpoint_, nullptr), &parameters);
    // Forced, it ends by itself; until then UCX may still read what was to be sent.
    const auto finish = [this](ucs_status_ptr_t request) {
      if (request == nullptr || UCS_PTR_IS_ERR(request)) return;
      while (ucx().request_check_status(request) == UCS_INPROGRESS) {
        ucx().worker_progress(worker_->get());
      }
      ucx().request_free(request);
    };
    finish(closing);
    finish(std::exchange(sending_, nullptr));
    worker_->signal();
  }

  Peer peer() const override { return peer_; }

 private:
  IoResult nothing() const {
    if (failure_ == UCS_OK) return {};
    if (failure_ == UCS_ERR_CONNECTION_RESET) return {.state = IoState::kEnd};
    return {.state = IoState::kFailed, .why = ucx().status_string(failure_)};
  }
  void fail(ucs_status_t status) {
    if (failure_ == UCS_OK) failure_ = status;
    wake();
  }
  void release_chunk() {
    ucx().stream_data_release(endpoint_, std::exchange(chunk_, nullptr));
    chunk_taken_ = 0;
  }

  // One is under way at a time; its parts stay where they are until it is done.
  IoResult start_write(std::span<const iovec> parts) {
    const std::size_t window = kWindowBytes - (sent_ - acknowledged_);
    std::size_t count = 0;
    sending_bytes_ = 0;
    while (count < std::min(parts.size(), kPartsMax) && sending_bytes_ < window) {
      const std::size_t bytes = std::min(parts[count].iov_len, window - sending_bytes_);
      parts_[count] = {parts[count].iov_base, bytes};
      sending_bytes_ += bytes;
      ++count;
    }
    if (count == 0) return {};  // until a credit comes
    sent_ += sending_bytes_;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask =
        UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.datatype = ucp_dt_make_iov();
    parameters.cb.send = [](void*, ucs_status_t, void* self) {
      static_cast<UcxStream*>(self)->wake();
    };
    parameters.user_data = this;
    const ucs_status_ptr_t request =
        ucx().stream_send_nbx(endpoint_, parts_.data(), count, &parameters);
    if (request == nullptr) return {.state = IoState::kDone, .bytes = sending_bytes_};
    if (UCS_PTR_IS_ERR(request)) {
      fail(UCS_PTR_STATUS(request));
      return nothing();
    }
    sending_ = request;
    worker_->signal();
    return {};
  }

  void tell_credit() {
    told_ = received_;
    const auto number = new std::uint64_t(received_);  // UCX reads it until it calls back
    ucp_request_param_t parameters{};
    parameters.op_attr_mask =
        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.flags = UCP_AM_SEND_FLAG_REPLY;
    parameters.cb.send = [](void* request, ucs_status_t, void* kept) {
      delete static_cast<std::uint64_t*>(kept);
      ucx().request_free(request);
    };
    parameters.user_data = number;
    const ucs_status_ptr_t request = ucx().am_send_nbx(endpoint_, kCreditMessage, number,
                                                       sizeof *number, nullptr, 0, &parameters);
    if (request == nullptr || UCS_PTR_IS_ERR(request)) delete number;
    worker_->signal();
  }

  const std::shared_ptr<Worker> worker_;  // shared by all streams of a transport
  const Peer peer_;
  Descriptor event_;
  // With the worker's mutex.
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_t failure_ = UCS_OK;
  void* chunk_ = nullptr;  // received, UCX's memory
  std::size_t chunk_bytes_ = 0, chunk_taken_ = 0;
  std::uint64_t sent_ = 0, acknowledged_ = 0, received_ = 0, told_ = 0;
  ucs_status_ptr_t sending_ = nullptr;
  std::size_t sending_bytes_ = 0;
  std::array<ucp_dt_iov_t, kPartsMax> parts_{};
};

ucs_status_t Worker::take_credit(void* self, const void* header, std::size_t header_bytes, void*,
                                 std::size_t, const ucp_am_recv_param_t* parameters) {
  std::uint64_t bytes = 0;
  const bool has_sender = (parameters->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  if (header_bytes != sizeof bytes || !has_sender) return UCS_OK;
  std::memcpy(&bytes, header, sizeof bytes);
  const auto& streams = static_cast<Worker*>(self)->streams;
  const auto found = streams.find(parameters->reply_ep);
  if (found != streams.end()) found->second->take_credit(bytes);
  return UCS_OK;
}

void Worker::finish() {
  constexpr int kRounds = 200;
  const std::lock_guard lock(mutex);
  for (int i = 0; i < kRounds; ++i) ucx().worker_progress(worker_);
}

bool Worker::on_ready() {
  std::vector<std::function<void()>> calls;
  bool is_busy = false;
  {
    const std::lock_guard lock(mutex);
    while (ucx().worker_progress(worker_) != 0) {
    }
    std::array<ucp_stream_poll_ep_t, 64> ready{};
    for (;;) {
      const ssize_t count = ucx().stream_worker_poll(worker_, ready.data(), ready.size(), 0);
      for (ssize_t i = 0; i < count; ++i) {
        static_cast<UcxStream*>(ready[static_cast<std::size_t>(i)].user_data)->wake();
      }
      if (count < static_cast<ssize_t>(ready.size())) break;
    }
    calls.swap(accepted);
    is_busy = ucx().worker_arm(worker_) == UCS_ERR_BUSY;
  }
  for (const auto& call : calls) call();
  return is_busy;
}

class UcxListening : public Ucx::Listening {
 public:
  UcxListening(std::shared_ptr<Worker> worker, Ucx::OnStream on_stream)
      : worker_(std::move(worker)), on_stream_(std::move(on_stream)) {}
  ~UcxListening() override {
    const std::lock_guard lock(worker_->mutex);
    if (listener_ != nullptr) ucx().listener_destroy(listener_);
  }
  const Address& address() const override { return address_; }

  Status open(const Address& address, const sockaddr_storage& at, socklen_t bytes) {
    const std::lock_guard lock(worker_->mutex);
    ucp_listener_params_t parameters{};
    parameters.field_mask =
        UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    parameters.sockaddr = {reinterpret_cast<const sockaddr*>(&at), bytes};
    parameters.conn_handler = {[](ucp_conn_request_h request, void* self) {
                                 static_cast<UcxListening*>(self)->accept(request);
                               },
                               this};
    ucs_status_t status = ucx().listener_create(worker_->get(), &parameters, &listener_);
    if (status != UCS_OK) return failed(address, "cannot listen there", status);
    ucp_listener_attr_t attributes{};
    attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    status = ucx().listener_query(listener_, &attributes);
    if (status != UCS_OK) return failed(address, "cannot listen there", status);
    address_ = address_of(attributes.sockaddr);
    worker_->signal();
    return {};
  }

 private:
  static Address address_of(const sockaddr_storage& storage) {
    Address address = numeric_address(reinterpret_cast<const sockaddr*>(&storage));
    address.medium = Medium::kUcx;
    return address;
  }
  // In progress, with the worker's mutex.
  void accept(ucp_conn_request_h request) {
    ucp_conn_request_attr_t attributes{};
    attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
    Peer peer;
    if (ucx().conn_request_query(request, &attributes) == UCS_OK) {
      peer.address = address_of(attributes.client_address);
    }
    auto stream = std::make_shared<std::unique_ptr<UcxStream>>(
        std::make_unique<UcxStream>(worker_, std::move(peer)));
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    parameters.conn_request = request;
    const ucs_status_t status = (*stream)->open(parameters);
    // Both outside: the stream's end takes the mutex, and whom it is for may call back.
    worker_->accepted.push_back([stream, status, give = on_stream_] {
      if (status == UCS_OK) give(std::move(*stream));
    });
  }

  const std::shared_ptr<Worker> worker_;  // shared with the streams
  const Ucx::OnStream on_stream_;
  ucp_listener_h listener_ = nullptr;
  Address address_;
};

class UcxOfLoop : public Ucx {
 public:
  explicit UcxOfLoop(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}

  Result<std::unique_ptr<ByteStream>> connect(const Address& address) override {
    TESSERA_TRY(const SystemAddress to, system_address(address, false));
    auto stream = std::make_unique<UcxStream>(worker_, Peer{.address = address});
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    parameters.sockaddr = {reinterpret_cast<const sockaddr*>(&to.storage), to.bytes};
    ucs_status_t status = UCS_OK;
    {
      const std::lock_guard lock(worker_->mutex);
      status = stream->open(parameters);
      worker_->signal();
    }
    if (status != UCS_OK) return failed(address, "cannot connect", status);
    return std::unique_ptr<ByteStream>(std::move(stream));
  }

  Result<std::unique_ptr<Listening>> listen(const Address& address, OnStream on_stream) override {
    TESSERA_TRY(const SystemAddress at, system_address(address, true));
    auto listening = std::make_unique<UcxListening>(worker_, std::move(on_stream));
    TESSERA_RETURN_IF_ERROR(listening->open(address, at.storage, at.bytes));
    return std::unique_ptr<Listening>(std::move(listening));
  }

  void finish() override { worker_->finish(); }

 private:
  const std::shared_ptr<Worker> worker_;
};

}  // namespace

bool Ucx::is_built() { return true; }

Result<std::shared_ptr<Ucx>> Ucx::make(const std::shared_ptr<Loop>& loop) {
  TESSERA_TRY(const std::shared_ptr<Worker> worker, Worker::make());
  loop->post([target = loop.get(), worker] {
    target->add(worker, {worker->event()}, Loop::Trigger::kLevel);
  });
  return std::shared_ptr<Ucx>(std::make_shared<UcxOfLoop>(worker));
}

}  // namespace tessera::transport
