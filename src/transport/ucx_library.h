// The functions of UCX, loaded when a connection over it is first asked for. A program that links UCX has
// it from its beginning, and it takes signals then: SIGHUP, so that a hang-up or the end of a session ends
// nothing, and those of faults. Only who uses `ucx:` has UCX, and its signals stay the program's own.
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

#include "base/result.h"

namespace tessera::transport {

struct UcxLibrary {
  decltype(&::ucs_global_opts_set_value) global_opts_set_value;
  decltype(&::ucs_status_string) status_string;
  decltype(&::ucp_am_send_nbx) am_send_nbx;
  decltype(&::ucp_cleanup) cleanup;
  decltype(&::ucp_config_modify) config_modify;
  decltype(&::ucp_config_read) config_read;
  decltype(&::ucp_config_release) config_release;
  decltype(&::ucp_conn_request_query) conn_request_query;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx;
  decltype(&::ucp_ep_create) ep_create;
  decltype(&::ucp_init_version) init_version;
  decltype(&::ucp_listener_create) listener_create;
  decltype(&::ucp_listener_destroy) listener_destroy;
  decltype(&::ucp_listener_query) listener_query;
  decltype(&::ucp_request_check_status) request_check_status;
  decltype(&::ucp_request_free) request_free;
  decltype(&::ucp_stream_data_release) stream_data_release;
  decltype(&::ucp_stream_recv_data_nb) stream_recv_data_nb;
  decltype(&::ucp_stream_send_nbx) stream_send_nbx;
  decltype(&::ucp_stream_worker_poll) stream_worker_poll;
  decltype(&::ucp_worker_arm) worker_arm;
  decltype(&::ucp_worker_create) worker_create;
  decltype(&::ucp_worker_destroy) worker_destroy;
  decltype(&::ucp_worker_get_efd) worker_get_efd;
  decltype(&::ucp_worker_progress) worker_progress;
  decltype(&::ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&::ucp_worker_signal) worker_signal;
};

// Loads it at the first call; it stays until the process ends. What it is loaded by is told once: an error
// stays one. Any thread may call it.
Result<const UcxLibrary*> load_ucx();

}  // namespace tessera::transport
