// UCX over TCP: tagged messages, waiting in wake-up mode, failures of the peer told (MODE_PEER). Loopback
// alone, and the rendezvous from 1 MiB on: earlier it costs more than it saves here.
#include <arpa/inet.h>
#include <poll.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <cstdlib>

#include "candidate.h"

namespace tessera::bench {
namespace {

void require(ucs_status_t status) {
  if (status != UCS_OK) std::_Exit(status == UCS_ERR_CONNECTION_RESET ? 0 : 1);
}

sockaddr_in address_of(const std::string& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(place.c_str())));
  return address;
}

class UcxPeer : public Client {
 public:
  UcxPeer() {
    ucp_config_t* config = nullptr;
    require(ucp_config_read(nullptr, nullptr, &config));
    ucp_config_modify(config, "TLS", "tcp");
    ucp_config_modify(config, "NET_DEVICES", "lo");
    ucp_config_modify(config, "RNDV_THRESH", "1m");
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    require(ucp_init(&parameters, config, &context_));
    ucp_config_release(config);
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    require(ucp_worker_create(context_, &worker, &worker_));
    require(ucp_worker_get_efd(worker_, &event_));
  }
  // The process ends, and everything with it.
  ~UcxPeer() override = default;

  void connect(const std::string& place) {
    const sockaddr_in address = address_of(place);
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                            UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    parameters.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address);
    parameters.sockaddr.addrlen = sizeof address;
    open(parameters);
  }
  void accept(const std::string& place, const std::function<void()>& listens) {
    const sockaddr_in address = address_of(place);
    ucp_listener_params_t parameters{};
    parameters.field_mask =
        UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    parameters.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address);
    parameters.sockaddr.addrlen = sizeof address;
    parameters.conn_handler.cb = [](ucp_conn_request_h request, void* self) {
      static_cast<UcxPeer*>(self)->request_ = request;
    };
    parameters.conn_handler.arg = this;
    ucp_listener_h listener = nullptr;
    require(ucp_listener_create(worker_, &parameters, &listener));
    listens();
    while (request_ == nullptr) progress();
    ucp_ep_params_t accepted{};
    accepted.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                          UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    accepted.conn_request = request_;
    open(accepted);
  }

  void send(std::span<const std::byte> message) override {
    ucp_request_param_t none{};
    wait(ucp_tag_send_nbx(endpoint_, message.data(), message.size(), 1, &none));
  }
  std::size_t receive(std::span<std::byte> target) override {
    ucp_tag_recv_info_t info{};
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO;
    parameters.recv_info.tag_info = &info;
    // The answer may be complete in the call, and then only here says so.
    parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.cb.recv = [](void*, ucs_status_t, const ucp_tag_recv_info_t* got, void* length) {
      *static_cast<std::size_t*>(length) = got->length;
    };
    std::size_t length = 0;
    parameters.user_data = &length;
    const ucs_status_ptr_t request =
        ucp_tag_recv_nbx(worker_, target.data(), target.size(), 1, ~0ULL, &parameters);
    const bool is_done = request == nullptr;
    wait(request);
    return is_done ? info.length : length;
  }

 private:
  void open(ucp_ep_params_t& parameters) {
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) { std::_Exit(0); };
    require(ucp_ep_create(worker_, &parameters, &endpoint_));
  }
  void progress() {
    if (ucp_worker_progress(worker_) != 0) return;
    if (ucp_worker_arm(worker_) != UCS_OK) return;  // something came meanwhile
    pollfd waiting{.fd = event_, .events = POLLIN, .revents = 0};
    ::poll(&waiting, 1, -1);
  }
  void wait(ucs_status_ptr_t request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) require(UCS_PTR_STATUS(request));
    while (ucp_request_check_status(request) == UCS_INPROGRESS) progress();
    require(ucp_request_check_status(request));
    ucp_request_free(request);
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_conn_request_h request_ = nullptr;
  int event_ = -1;
};

void serve(const std::string& place, const std::function<void()>& listens) {
  UcxPeer peer;
  peer.accept(place, listens);
  answer(peer);
}

}  // namespace

std::vector<Candidate> ucx_candidates() {
  return {{"UCX tcp", serve, [](const std::string& place) -> std::unique_ptr<Client> {
             auto peer = std::make_unique<UcxPeer>();
             peer->connect(place);
             return peer;
           }}};
}

}  // namespace tessera::bench
