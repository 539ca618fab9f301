#include "serve/grpc/grpc_server.h"

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "inference_service.grpc.pb.h"
#include "serve/datatype.h"
#include "serve/grpc/infer_message.h"
#include "serve/grpc/infer_stream.h"
#include "serve/grpc/status.h"
#include "tessera/session.h"

namespace tessera::serve {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;
namespace api = inference;

grpc::Status status_of(Problem problem, const Error& error) {
  return status_of(Failure{problem, error.message});
}

ServerUnaryReactor* answer(CallbackServerContext* context, const grpc::Status& status) {
  ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

void put(api::StatisticDuration& into, const Duration& duration) {
  into.set_count(static_cast<std::uint64_t>(duration.count));
  into.set_ns(static_cast<std::uint64_t>(duration.time.count()));
}

void put(api::ModelStatistics& into, const ServedModel& model) {
  const ModelStatistics of = model.statistics();
  into.set_name(model.name());
  into.set_version(model.version());
  into.set_last_inference(static_cast<std::uint64_t>(of.last_inference_ms));
  into.set_inference_count(static_cast<std::uint64_t>(of.success.count));
  into.set_execution_count(static_cast<std::uint64_t>(of.runs));
  api::InferStatistics& parts = *into.mutable_inference_stats();
  put(*parts.mutable_success(), of.success);
  put(*parts.mutable_fail(), of.failure);
  put(*parts.mutable_queue(), of.queue);
  put(*parts.mutable_compute_input(), of.input);
  put(*parts.mutable_compute_infer(), of.infer);
  put(*parts.mutable_compute_output(), of.output);
  for (const auto& [rows, batch] : of.batches) {
    api::InferBatchStatistics& row = *into.add_batch_stats();
    row.set_batch_size(static_cast<std::uint64_t>(rows));
    put(*row.mutable_compute_input(), batch.input);
    put(*row.mutable_compute_infer(), batch.infer);
    put(*row.mutable_compute_output(), batch.output);
  }
}

template <typename List>
void put(List& into, const std::vector<TensorDescription>& tensors) {
  for (const TensorDescription& tensor : tensors) {
    auto& row = *into.Add();
    row.set_name(tensor.name);
    row.set_datatype(std::string(datatype_of(tensor.format)));
    row.mutable_shape()->Add(tensor.dims.begin(), tensor.dims.end());
  }
}

Result<Client> client_of(const Service& service, const grpc::ServerContextBase& context,
                         const char* what) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) return service.client_of("", what);
  return service.client_of({found->second.data(), found->second.size()}, what);
}

// Of a client that has no token, or that comes too late.
class RefusedStream
    : public grpc::ServerBidiReactor<api::ModelInferRequest, api::ModelStreamInferResponse> {
 public:
  explicit RefusedStream(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

class GrpcServer::Calls : public api::GRPCInferenceService::CallbackService {
 public:
  explicit Calls(serve::Service& service) : service_(service) {}

  void shut_down_streams() { streams_.shut_down(); }

  ServerUnaryReactor* ServerLive(CallbackServerContext* context, const api::ServerLiveRequest*,
                                 api::ServerLiveResponse* response) override {
    response->set_live(true);
    return answer(context, grpc::Status::OK);
  }

  ServerUnaryReactor* ServerReady(CallbackServerContext* context, const api::ServerReadyRequest*,
                                  api::ServerReadyResponse* response) override {
    response->set_ready(!service_.why_not_ready());
    return answer(context, grpc::Status::OK);
  }

  ServerUnaryReactor* ModelReady(CallbackServerContext* context,
                                 const api::ModelReadyRequest* request,
                                 api::ModelReadyResponse* response) override {
    return with_client(context, "ModelReady", [&](const Client& client) {
      response->set_ready(service_.served(client, {request->name(), request->version()}).ok());
      return grpc::Status::OK;
    });
  }

  ServerUnaryReactor* ServerMetadata(CallbackServerContext* context,
                                     const api::ServerMetadataRequest*,
                                     api::ServerMetadataResponse* response) override {
    return with_client(context, "ServerMetadata", [&](const Client&) {
      response->set_name("tessera");
      response->set_version(version());
      for (const std::string& each : service_.extensions()) response->add_extensions(each);
      return grpc::Status::OK;
    });
  }

  ServerUnaryReactor* ModelMetadata(CallbackServerContext* context,
                                    const api::ModelMetadataRequest* request,
                                    api::ModelMetadataResponse* response) override {
    return with_client(context, "ModelMetadata", [&](const Client& client) {
      const auto model = service_.served(client, {request->name(), request->version()});
      if (!model.ok()) return status_of(Problem::kNotFound, model.error());
      response->set_name((*model)->name());
      for (const std::string& each : service_.versions_of(request->name())) {
        response->add_versions(each);
      }
      response->set_platform((*model)->platform());
      put(*response->mutable_inputs(), (*model)->form().inputs);
      put(*response->mutable_outputs(), (*model)->form().outputs);
      return grpc::Status::OK;
    });
  }

  ServerUnaryReactor* ModelInfer(CallbackServerContext* context,
                                 const api::ModelInferRequest* request,
                                 api::ModelInferResponse* response) override {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    const auto client = client_of(service_, *context, "ModelInfer");
    if (!client.ok()) {
      reactor->Finish(status_of(Problem::kUnauthenticated, client.error()));
      return reactor;
    }
    service_.infer(
        *client, {request->model_name(), request->model_version()},
        [&](const ModelForm& form, const RegionsOfClient& regions) -> Result<InferRequest> {
          auto parsed = parse_infer(*request, form, regions);
          if (parsed.ok()) set_deadline(*parsed, context->deadline());
          return parsed;
        },
        // The response lives until Finish().
        [reactor, response](InferOutcome outcome) -> Send {
          if (outcome.failure) {
            return [reactor, status = status_of(*outcome.failure)] { reactor->Finish(status); };
          }
          write_infer(outcome, *response);
          return [reactor] { reactor->Finish(grpc::Status::OK); };
        });
    return reactor;
  }

  grpc::ServerBidiReactor<api::ModelInferRequest, api::ModelStreamInferResponse>* ModelStreamInfer(
      CallbackServerContext* context) override {
    auto client = client_of(service_, *context, "ModelStreamInfer");
    if (!client.ok()) {
      return new RefusedStream(status_of(Problem::kUnauthenticated, client.error()));
    }
    auto* const stream = streams_.start(service_, std::move(*client), context->deadline());
    if (stream == nullptr) return new RefusedStream(status_of(kShutsDown));
    return stream;
  }

  ServerUnaryReactor* ModelStatistics(CallbackServerContext* context,
                                      const api::ModelStatisticsRequest* request,
                                      api::ModelStatisticsResponse* response) override {
    return with_client(context, "ModelStatistics", [&](const Client& client) {
      const auto named = service_.served(client, {request->name(), request->version()});
      if (!request->name().empty() && !named.ok()) {
        return status_of(Problem::kNotFound, named.error());
      }
      for (const auto& model : service_.all_served(client)) {
        if (!request->name().empty() && model->name() != request->name()) continue;
        if (!request->version().empty() && model->version() != request->version()) continue;
        put(*response->add_model_stats(), *model);
      }
      return grpc::Status::OK;
    });
  }

  ServerUnaryReactor* RepositoryIndex(CallbackServerContext* context,
                                      const api::RepositoryIndexRequest* request,
                                      api::RepositoryIndexResponse* response) override {
    return with_client(context, "RepositoryIndex", [&](const Client& client) {
      for (const IndexEntry& entry : service_.index(client, request->ready())) {
        auto& row = *response->add_models();
        row.set_name(entry.name);
        row.set_version(entry.version);
        row.set_state(entry.state);
        row.set_reason(entry.reason);
      }
      return grpc::Status::OK;
    });
  }

  ServerUnaryReactor* RepositoryModelLoad(CallbackServerContext* context,
                                          const api::RepositoryModelLoadRequest* request,
                                          api::RepositoryModelLoadResponse*) override {
    return change(context, *request, true);
  }

  ServerUnaryReactor* RepositoryModelUnload(CallbackServerContext* context,
                                            const api::RepositoryModelUnloadRequest* request,
                                            api::RepositoryModelUnloadResponse*) override {
    return change(context, *request, false);
  }

  ServerUnaryReactor* SystemSharedMemoryStatus(
      CallbackServerContext* context, const api::SystemSharedMemoryStatusRequest* request,
      api::SystemSharedMemoryStatusResponse* response) override {
    return with_client(context, "SystemSharedMemoryStatus", [&](const Client& client) {
      for (const RegionStatus& region : service_.regions().list(client.name())) {
        if (!request->name().empty() && region.name != request->name()) continue;
        auto& row = (*response->mutable_regions())[region.name];
        row.set_name(region.name);
        row.set_key(region.key);
        row.set_offset(region.offset);
        row.set_byte_size(region.bytes);
      }
      if (!request->name().empty() && response->regions().empty()) {
        return status_of(
            Failure{Problem::kNotFound, fmt::format("there is no region '{}'", request->name())});
      }
      return grpc::Status::OK;
    });
  }

  ServerUnaryReactor* SystemSharedMemoryRegister(
      CallbackServerContext* context, const api::SystemSharedMemoryRegisterRequest* request,
      api::SystemSharedMemoryRegisterResponse*) override {
    return with_client(context, "SystemSharedMemoryRegister", [&](const Client& client) {
      const auto refused = service_.add_region(
          client, {request->name(), request->key(), request->offset(), request->byte_size()});
      return refused ? status_of(*refused) : grpc::Status::OK;
    });
  }

  ServerUnaryReactor* SystemSharedMemoryUnregister(
      CallbackServerContext* context, const api::SystemSharedMemoryUnregisterRequest* request,
      api::SystemSharedMemoryUnregisterResponse*) override {
    return with_client(context, "SystemSharedMemoryUnregister", [&](const Client& client) {
      const Status removed = service_.regions().remove(client.name(), request->name());
      return removed.ok() ? grpc::Status::OK : status_of(Problem::kInput, removed.error());
    });
  }

 private:
  template <typename Answer>
  ServerUnaryReactor* with_client(CallbackServerContext* context, const char* what,
                                  const Answer& answer_of) {
    const auto client = client_of(service_, *context, what);
    if (!client.ok()) return answer(context, status_of(Problem::kUnauthenticated, client.error()));
    return answer(context, answer_of(*client));
  }

  template <typename Request>
  ServerUnaryReactor* change(CallbackServerContext* context, const Request& request, bool load) {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    const auto client =
        client_of(service_, *context, load ? "RepositoryModelLoad" : "RepositoryModelUnload");
    if (!client.ok()) {
      reactor->Finish(status_of(Problem::kUnauthenticated, client.error()));
      return reactor;
    }
    RepositoryChange change{.model = request.model_name(), .load = load};
    for (const auto& [name, value] : request.parameters()) change.parameters.push_back(name);
    service_.change(*client, change, [reactor](const std::optional<Failure>& failure) {
      reactor->Finish(failure ? status_of(*failure) : grpc::Status::OK);
    });
    return reactor;
  }

  serve::Service& service_;
  InferStreams streams_;
};

struct GrpcServer::Running {
  std::unique_ptr<grpc::Server> server;
};

GrpcServer::GrpcServer() = default;

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(Service& service,
                                                      const GrpcOptions& options) {
  // Nothing but a command prints: what gRPC would say of its own comes back as statuses.
  gpr_set_log_function([](gpr_log_func_args*) {});
  std::unique_ptr<GrpcServer> server(new GrpcServer);
  server->calls_ = std::make_unique<Calls>(service);
  server->running_ = std::make_unique<Running>();
  grpc::ServerBuilder builder;
  const bool is_v6 = options.address.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + options.address + "]" : options.address;
  const std::string place = fmt::format("{}:{}", host, options.port);
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!options.certificate.empty()) {
    grpc::SslServerCredentialsOptions tls(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    tls.pem_key_cert_pairs.push_back({options.key, options.certificate});
    credentials = grpc::SslServerCredentials(tls);
  }
  builder.AddListeningPort(place, credentials, &server->port_);
  builder.RegisterService(server->calls_.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<std::size_t>(options.request_bytes, std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  grpc::ResourceQuota quota("serve");
  quota.Resize(options.memory_bytes);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams);
  // A client that has gone without a word is noticed.
  constexpr int kKeepAliveMs = 60'000, kKeepAliveTimeoutMs = 20'000;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveTimeoutMs);
  server->running_->server = builder.BuildAndStart();
  if (server->running_->server == nullptr || server->port_ == 0) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("cannot serve gRPC at {}: the port is taken, the address is not of "
                    "this machine{}; port 0 takes any that is free",
                    place,
                    options.certificate.empty() ? "" : ", or certificate and key do not fit")};
  }
  return server;
}

void GrpcServer::begin_shutdown() { calls_->shut_down_streams(); }

bool GrpcServer::finish(std::chrono::milliseconds patience) {
  begin_shutdown();
  const auto last = std::chrono::system_clock::now() + patience;
  running_->server->Shutdown(last);
  running_->server->Wait();
  return std::chrono::system_clock::now() < last;
}

GrpcServer::~GrpcServer() {
  if (running_ == nullptr || running_->server == nullptr) return;
  running_->server->Shutdown(std::chrono::system_clock::now());
  running_->server->Wait();
}

}  // namespace tessera::serve
