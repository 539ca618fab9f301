#include "transport/ucx_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <csignal>
#include <string>
#include <vector>

namespace tessera::transport {
namespace {

// Of the interface's version that this is compiled for.
constexpr const char* kFile = "libucp.so.0";
static_assert(UCP_API_MAJOR == 1, "another major version of UCX has another file name");

// What the process does at each signal, put back as it was.
class KeptSignals {
 public:
  KeptSignals() {
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction action{};
      if (::sigaction(signal, nullptr, &action) == 0) kept_.emplace_back(signal, action);
    }
  }
  ~KeptSignals() {
    // Refused for those that nobody may change.
    for (const auto& [signal, action] : kept_) (void)::sigaction(signal, &action, nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> kept_;
};

struct Loading {
  void* library = nullptr;
  std::string failure;  // of the first function that is not there

  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr && failure.empty()) {
      failure = fmt::format("{} has no function '{}'", kFile, name);
    }
  }
};

void find_functions(Loading& loading, UcxLibrary& found) {
  loading.find("ucs_global_opts_set_value", found.global_opts_set_value);
  loading.find("ucs_status_string", found.status_string);
  loading.find("ucp_am_send_nbx", found.am_send_nbx);
  loading.find("ucp_cleanup", found.cleanup);
  loading.find("ucp_config_modify", found.config_modify);
  loading.find("ucp_config_read", found.config_read);
  loading.find("ucp_config_release", found.config_release);
  loading.find("ucp_conn_request_query", found.conn_request_query);
  loading.find("ucp_ep_close_nbx", found.ep_close_nbx);
  loading.find("ucp_ep_create", found.ep_create);
  loading.find("ucp_init_version", found.init_version);
  loading.find("ucp_listener_create", found.listener_create);
  loading.find("ucp_listener_destroy", found.listener_destroy);
  loading.find("ucp_listener_query", found.listener_query);
  loading.find("ucp_request_check_status", found.request_check_status);
  loading.find("ucp_request_free", found.request_free);
  loading.find("ucp_stream_data_release", found.stream_data_release);
  loading.find("ucp_stream_recv_data_nb", found.stream_recv_data_nb);
  loading.find("ucp_stream_send_nbx", found.stream_send_nbx);
  loading.find("ucp_stream_worker_poll", found.stream_worker_poll);
  loading.find("ucp_worker_arm", found.worker_arm);
  loading.find("ucp_worker_create", found.worker_create);
  loading.find("ucp_worker_destroy", found.worker_destroy);
  loading.find("ucp_worker_get_efd", found.worker_get_efd);
  loading.find("ucp_worker_progress", found.worker_progress);
  loading.find("ucp_worker_set_am_recv_handler", found.worker_set_am_recv_handler);
  loading.find("ucp_worker_signal", found.worker_signal);
}

Result<UcxLibrary> load() {
  Loading loading;
  {
    const KeptSignals kept;
    loading.library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  }
  if (loading.library == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("UCX is not here: {}; install libucx0, or use tcp or shm",
                             ::dlerror())};  // NOLINT(concurrency-mt-unsafe): by thread in glibc
  }
  UcxLibrary found{};
  find_functions(loading, found);
  if (loading.failure.empty()) return found;
  return Error{ErrorCode::kUnavailable, loading.failure + "; use tcp or shm"};
}

}  // namespace

Result<const UcxLibrary*> load_ucx() {
  static const Result<UcxLibrary> kLoaded = load();
  if (!kLoaded.ok()) return kLoaded.error();
  return &kLoaded.value();
}

}  // namespace tessera::transport
