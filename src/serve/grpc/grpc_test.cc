// The service over gRPC, asked by a client made from the protocol's file.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <thread>

#include "http/testing/raw_socket.h"
#include "inference_service.grpc.pb.h"
#include "serve/datatype.h"
#include "serve/grpc/grpc_server.h"
#include "serve/grpc/infer_message.h"
#include "serve/testing/model_folder.h"

namespace tessera::serve {
namespace {

namespace api = inference;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::scaled;

template <typename List>
void put_floats(List& into, std::initializer_list<float> values) {
  into.Add(values.begin(), values.end());
}

std::string raw(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(float)};
}

api::ModelInferRequest request(const std::string& model) {
  api::ModelInferRequest request;
  request.set_model_name(model);
  request.set_id("seven");
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(1);
  input.add_shape(4);
  return request;
}

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class GrpcTest : public ::testing::Test {
 protected:
  GrpcTest() : folder_("grpc_test") {
    folder_.write("scale/1/model.onnx", scaled(2));
    folder_.write("scale/2/model.onnx", scaled(3));
    folder_.write("on_sim/1/model.onnx", scaled(2));
    folder_.write("on_sim/config.json", R"({"device": "sim"})");
    folder_.write("broken/1/model.onnx", "no model");
  }
  void start(ServiceOptions options = {}, GrpcOptions grpc = {}) {
    service_ = folder_.serve(std::move(options));
    grpc.port = 0;
    server_ = GrpcServer::start(*service_, grpc).value();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = api::GRPCInferenceService::NewStub(channel_);
  }
  grpc::Status infer(const api::ModelInferRequest& request,
                     api::ModelInferResponse& response) const {
    grpc::ClientContext context;
    if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
    return stub_->ModelInfer(&context, request, &response);
  }
  template <typename Request, typename Response>
  using Call = grpc::Status (api::GRPCInferenceService::Stub::*)(grpc::ClientContext*,
                                                                 const Request&, Response*);
  template <typename Request, typename Response>
  grpc::Status ask(Call<Request, Response> call, const Request& request, Response& response) const {
    grpc::ClientContext context;
    if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
    return (stub_.get()->*call)(&context, request, &response);
  }

  testing::ModelFolder folder_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<api::GRPCInferenceService::Stub> stub_;
  std::string token_;
};
using Stub = api::GRPCInferenceService::Stub;

TEST_F(GrpcTest, AnswersTypedAndRawContentsWithTheSameBits) {
  start();
  for (const char* const model : {"scale", "on_sim"}) {
    api::ModelInferRequest typed = request(model), raws = request(model);
    typed.set_model_version("1");
    raws.set_model_version("1");
    put_floats(*typed.mutable_inputs(0)->mutable_contents()->mutable_fp32_contents(),
               {0.5F, -2, 0.25F, 4});
    raws.add_raw_input_contents(raw({0.5F, -2, 0.25F, 4}));
    for (const auto& each : {typed, raws}) {
      api::ModelInferResponse response;
      const grpc::Status status = infer(each, response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(response.model_name(), model);
      EXPECT_EQ(response.model_version(), "1");
      EXPECT_EQ(response.id(), "seven");
      ASSERT_EQ(response.outputs_size(), 1);
      EXPECT_EQ(response.outputs(0).name(), "y");
      EXPECT_EQ(response.outputs(0).datatype(), "FP32");
      EXPECT_THAT(response.outputs(0).shape(), ElementsAre(1, 4));
      ASSERT_EQ(response.raw_output_contents_size(), 1);
      EXPECT_THAT(floats_of(response.raw_output_contents(0)), ElementsAre(1, 0, 0.5F, 8));
    }
  }
}

TEST_F(GrpcTest, TellsWhatIsThereAndWhatIsNot) {
  start();
  api::ServerLiveResponse live;
  ASSERT_TRUE(ask(&Stub::ServerLive, {}, live).ok());
  EXPECT_TRUE(live.live());
  api::ServerReadyResponse ready;
  ASSERT_TRUE(ask(&Stub::ServerReady, {}, ready).ok());
  EXPECT_TRUE(ready.ready());
  api::ServerMetadataResponse server;
  ASSERT_TRUE(ask(&Stub::ServerMetadata, {}, server).ok());
  EXPECT_EQ(server.name(), "tessera");
  EXPECT_THAT(server.extensions(), ::testing::Contains("system_shared_memory"));
  api::ModelReadyRequest of;
  api::ModelReadyResponse model;
  of.set_name("scale");
  ASSERT_TRUE(ask(&Stub::ModelReady, of, model).ok());
  EXPECT_TRUE(model.ready());
  of.set_name("broken");
  ASSERT_TRUE(ask(&Stub::ModelReady, of, model).ok());
  EXPECT_FALSE(model.ready());
  api::ModelMetadataRequest metadata_of;
  api::ModelMetadataResponse metadata;
  metadata_of.set_name("scale");
  ASSERT_TRUE(ask(&Stub::ModelMetadata, metadata_of, metadata).ok());
  EXPECT_THAT(metadata.versions(), ElementsAre("1", "2"));
  ASSERT_EQ(metadata.inputs_size(), 1);
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(1, 4));
  metadata_of.set_name("none");
  EXPECT_EQ(ask(&Stub::ModelMetadata, metadata_of, metadata).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcTest, RefusesRequestsWithTheProtocolsCodes) {
  start();
  api::ModelInferResponse response;
  api::ModelInferRequest wrong = request("scale");
  wrong.add_raw_input_contents(raw({1, 2}));
  grpc::Status status = infer(wrong, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("8 bytes of binary data; its shape has 16"));
  wrong = request("scale");
  put_floats(*wrong.mutable_inputs(0)->mutable_contents()->mutable_fp32_contents(), {1, 2, 3, 4});
  wrong.add_raw_input_contents(raw({1, 2, 3, 4}));
  status = infer(wrong, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("'contents' beside 'raw_input_contents'"));
  wrong = request("scale");
  wrong.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  status = infer(wrong, response);
  EXPECT_THAT(status.error_message(), HasSubstr("fewer than the 4 elements"));
  EXPECT_EQ(infer(request("none"), response).error_code(), grpc::StatusCode::NOT_FOUND);
  api::ModelInferRequest late = request("on_sim");
  late.add_raw_input_contents(raw({1, 2, 3, 4}));
  (*late.mutable_parameters())["timeout"].set_int64_param(1);
  status = infer(late, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
}

TEST_F(GrpcTest, RefusesAMessageThatIsTooLong) {
  start({}, {.request_bytes = 1024});
  api::ModelInferResponse response;
  api::ModelInferRequest long_one = request("scale");
  long_one.add_raw_input_contents(std::string(2048, 'x'));
  EXPECT_EQ(infer(long_one, response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  api::ModelInferRequest short_one = request("scale");
  short_one.add_raw_input_contents(raw({1, 2, 3, 4}));
  EXPECT_TRUE(infer(short_one, response).ok());
}

TEST_F(GrpcTest, TakesAMessageOfTheLimit) {
  api::ModelInferRequest message = request("scale");
  message.add_raw_input_contents(raw({1, 2, 3, 4}));
  const std::size_t bytes = message.ByteSizeLong();
  start({}, {.request_bytes = bytes});
  api::ModelInferResponse response;
  EXPECT_TRUE(infer(message, response).ok());
  message.set_id(message.id() + "1");
  ASSERT_EQ(message.ByteSizeLong(), bytes + 1);
  EXPECT_EQ(infer(message, response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcTest, TakesAndGivesEveryDatatype) {
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    folder_.write(std::string(datatype_of(format)) + "/1/model.onnx",
                  model::testing::ModelBuilder(13)
                      .input("x", format, {2})
                      .node("Identity", {"x"}, {"y"})
                      .output("y")
                      .proto()
                      .SerializeAsString());
  }
  start();
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    const std::string datatype(datatype_of(format));
    std::string data(2 * static_cast<std::size_t>(format_bytes(format)), '\0');
    if (format == Format::kF32 || format == Format::kF64) {
      const bool is_wide = format == Format::kF64;
      data[is_wide ? 7 : 3] = 0x3f;  // 1: an f16 of the architecture has it, too
      data[is_wide ? 6 : 2] = '\x80';
    } else if (format == Format::kF16 || format == Format::kBf16) {
      data[1] = 0x3c;
    } else {
      data[0] = 1;
    }
    api::ModelInferRequest message;
    message.set_model_name(datatype);
    auto& input = *message.add_inputs();
    input.set_name("x");
    input.set_datatype(datatype);
    input.add_shape(2);
    message.add_raw_input_contents(data);
    api::ModelInferResponse response;
    ASSERT_TRUE(infer(message, response).ok()) << datatype;
    EXPECT_EQ(response.outputs(0).datatype(), datatype);
    EXPECT_EQ(response.raw_output_contents(0), data) << datatype;
  }
}

// A model's values are rounded to the architecture's vectors, f16 where nothing else is said: so the smallest float is 0
// there, and subnormals that an f16 has, or an architecture of f32, come back as they are.
TEST_F(GrpcTest, SubnormalsComeBackAsTheArchitecturesFormatHasThem) {
  const std::string model = model::testing::ModelBuilder(13)
                                .input("x", Format::kF32, {1, 4})
                                .node("Identity", {"x"}, {"y"})
                                .output("y")
                                .proto()
                                .SerializeAsString();
  folder_.write("half/1/model.onnx", model);
  folder_.write("single/1/model.onnx", model);
  folder_.write("single/config.json", R"({"arch": "tessera128+f32"})");
  start();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  const std::initializer_list<float> values = {kLeast, -kLeast, 1e-40F, 0x1p-24F};
  const auto answer = [&](const char* name) {
    api::ModelInferRequest message = request(name);
    message.add_raw_input_contents(raw(values));
    api::ModelInferResponse response;
    const grpc::Status status = infer(message, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.raw_output_contents(0);
  };
  EXPECT_EQ(answer("single"), raw(values));
  EXPECT_EQ(answer("half"), raw({0.0F, -0.0F, 0.0F, 0x1p-24F}));
}

// The beginning of a connection and of a call, up to each of its bytes: none is answered, and none is in the way.
TEST_F(GrpcTest, AnswersBesideClientsThatSendHalfARequest) {
  start();
  using namespace std::string_literals;
  const std::string begun =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
      "\0\0\0\x04\0\0\0\0\0"                  // SETTINGS
      "\0\0\x10\x01\x04\0\0\0\x01\x83\x86"s;  // HEADERS of 16 bytes, of which 2 come
  std::vector<http::RawSocket> slow;
  for (std::size_t i = 0; i < 200; ++i) {
    slow.emplace_back(server_->port());
    ASSERT_TRUE(slow.back().send(std::string_view(begun).substr(0, i % (begun.size() + 1))));
  }
  // And those that speak something else.
  for (const std::string& other : {"GET / HTTP/1.1\r\n\r\n"s, std::string(100, '\xff')}) {
    slow.emplace_back(server_->port());
    EXPECT_TRUE(slow.back().send(other));
  }
  api::ModelInferRequest message = request("scale");
  message.add_raw_input_contents(raw({1, 2, 3, 4}));
  for (int i = 0; i < 5; ++i) {
    api::ModelInferResponse response;
    EXPECT_TRUE(infer(message, response).ok());
  }
  (void)slow.back().read_all();  // what the protocol says before it closes
  EXPECT_TRUE(slow.back().is_closed());
}

TEST_F(GrpcTest, LoadsUnloadsListsAndCounts) {
  start();
  api::RepositoryModelUnloadRequest unload;
  api::RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("scale");
  EXPECT_TRUE(ask(&Stub::RepositoryModelUnload, unload, unloaded).ok());
  api::RepositoryModelLoadRequest load;
  api::RepositoryModelLoadResponse loaded;
  load.set_model_name("scale");
  EXPECT_TRUE(ask(&Stub::RepositoryModelLoad, load, loaded).ok());
  // Longer than a file's name may be.
  load.set_model_name(std::string(300, 'a'));
  EXPECT_EQ(ask(&Stub::RepositoryModelLoad, load, loaded).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  load.set_model_name("none");
  const grpc::Status none = ask(&Stub::RepositoryModelLoad, load, loaded);
  EXPECT_EQ(none.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(none.error_message(), "there is no model 'none'");
  load.set_model_name("scale");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  const grpc::Status with_config = ask(&Stub::RepositoryModelLoad, load, loaded);
  EXPECT_EQ(with_config.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(with_config.error_message(), HasSubstr("a load has the parameter 'config'"));
  api::RepositoryIndexResponse index;
  ASSERT_TRUE(ask(&Stub::RepositoryIndex, {}, index).ok());
  ASSERT_EQ(index.models_size(), 4);
  EXPECT_EQ(index.models(0).name(), "broken");
  EXPECT_EQ(index.models(0).state(), "UNAVAILABLE");
  EXPECT_NE(index.models(0).reason(), "");
  api::ModelInferRequest each = request("scale");
  each.add_raw_input_contents(raw({1, 2, 3, 4}));
  api::ModelInferResponse response;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(infer(each, response).ok());
  api::ModelStatisticsRequest of;
  api::ModelStatisticsResponse statistics;
  of.set_name("scale");
  of.set_version("2");
  ASSERT_TRUE(ask(&Stub::ModelStatistics, of, statistics).ok());
  ASSERT_EQ(statistics.model_stats_size(), 1);
  EXPECT_EQ(statistics.model_stats(0).inference_count(), 3u);
  EXPECT_EQ(statistics.model_stats(0).execution_count(), 3u);
  EXPECT_EQ(statistics.model_stats(0).inference_stats().success().count(), 3u);
}

TEST_F(GrpcTest, StreamsAnswersToEachRequest) {
  start();
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  constexpr int kRequests = 200;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      api::ModelInferRequest each = request(i == 7 ? "none" : "scale");
      each.set_id(std::to_string(i));
      each.add_raw_input_contents(raw({static_cast<float>(i), 0, 0, 0}));
      stream->Write(each);
    }
    stream->WritesDone();
  });
  std::vector<bool> is_there(kRequests, false);
  api::ModelStreamInferResponse response;
  while (stream->Read(&response)) {
    const auto number = static_cast<std::size_t>(std::stoi(response.infer_response().id()));
    EXPECT_FALSE(is_there[number]);
    is_there[number] = true;
    if (number == 7) {
      EXPECT_THAT(response.error_message(), HasSubstr("there is no model 'none'"));
    } else {
      EXPECT_EQ(floats_of(response.infer_response().raw_output_contents(0))[0],
                static_cast<float>(number) * 3);
    }
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(is_there, ::testing::Each(true));
}

// A client that goes away in the middle takes nothing with it.
TEST_F(GrpcTest, SurvivesAStreamThatIsCancelled) {
  start();
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    const auto stream = stub_->ModelStreamInfer(&context);
    for (int j = 0; j < 5; ++j) {
      api::ModelInferRequest each = request("scale");
      each.add_raw_input_contents(raw({1, 2, 3, 4}));
      stream->Write(each);
    }
    context.TryCancel();
    stream->Finish();
  }
  api::ModelInferRequest each = request("scale");
  each.add_raw_input_contents(raw({1, 2, 3, 4}));
  api::ModelInferResponse response;
  EXPECT_TRUE(infer(each, response).ok());
}

TEST_F(GrpcTest, TakesTensorsFromSharedMemoryAndPutsThemThere) {
  start();
  const std::string key = "/tessera_grpc_test_" + std::to_string(getpid());
  const int memory = shm_open(key.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(memory, 0);
  ASSERT_EQ(ftruncate(memory, 64), 0);
  const std::string values = raw({1, -2, 3, 4});
  ASSERT_EQ(pwrite(memory, values.data(), values.size(), 16), 16);
  api::SystemSharedMemoryRegisterRequest of;
  api::SystemSharedMemoryRegisterResponse registered;
  of.set_name("both");
  of.set_key(key);
  of.set_offset(16);
  of.set_byte_size(48);
  ASSERT_TRUE(ask(&Stub::SystemSharedMemoryRegister, of, registered).ok());
  EXPECT_EQ(ask(&Stub::SystemSharedMemoryRegister, of, registered).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  api::SystemSharedMemoryStatusResponse status;
  ASSERT_TRUE(ask(&Stub::SystemSharedMemoryStatus, {}, status).ok());
  ASSERT_EQ(status.regions().size(), 1u);
  EXPECT_EQ(status.regions().at("both").byte_size(), 48u);
  api::ModelInferRequest each = request("scale");
  const auto place = [](auto& parameters, std::int64_t offset) {
    parameters["shared_memory_region"].set_string_param("both");
    parameters["shared_memory_byte_size"].set_int64_param(16);
    parameters["shared_memory_offset"].set_int64_param(offset);
  };
  place(*each.mutable_inputs(0)->mutable_parameters(), 0);
  each.add_outputs()->set_name("y");
  place(*each.mutable_outputs(0)->mutable_parameters(), 32);
  api::ModelInferResponse response;
  const grpc::Status done = infer(each, response);
  ASSERT_TRUE(done.ok()) << done.error_message();
  EXPECT_EQ(response.raw_output_contents(0), "");
  std::string found(16, '\0');
  ASSERT_EQ(pread(memory, found.data(), found.size(), 48), 16);
  EXPECT_THAT(floats_of(found), ElementsAre(3, 0, 9, 12));
  // Made shorter under the server: an error, and nothing else.
  ASSERT_EQ(ftruncate(memory, 20), 0);
  EXPECT_THAT(infer(each, response).error_message(), HasSubstr("made shorter"));
  api::SystemSharedMemoryUnregisterResponse unregistered;
  ASSERT_TRUE(ask(&Stub::SystemSharedMemoryUnregister, {}, unregistered).ok());
  EXPECT_THAT(infer(each, response).error_message(), HasSubstr("there is no region 'both'"));
  close(memory);
  shm_unlink(key.c_str());
}

// A region says how long it is; the memory of one that was never written to is nowhere.
TEST_F(GrpcTest, TakesNoMoreFromSharedMemoryThanARequestMayHave) {
  folder_.write("open/1/model.onnx", scaled(2, true));
  ServiceOptions options;
  options.request_bytes = 1 << 10;
  start(std::move(options));
  const std::string key = "/tessera_grpc_sparse_test_" + std::to_string(getpid());
  const int memory = shm_open(key.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(memory, 0);
  constexpr std::uint64_t kBytes = std::uint64_t{200} << 30;
  ASSERT_EQ(ftruncate(memory, static_cast<off_t>(kBytes)), 0);
  api::SystemSharedMemoryRegisterRequest of;
  api::SystemSharedMemoryRegisterResponse registered;
  of.set_name("sparse");
  of.set_key(key);
  of.set_byte_size(kBytes);
  ASSERT_TRUE(ask(&Stub::SystemSharedMemoryRegister, of, registered).ok());
  const auto asked = [&](std::uint64_t bytes) {
    api::ModelInferRequest each = request("open");
    each.mutable_inputs(0)->set_shape(0, static_cast<std::int64_t>(bytes / 16));
    auto& parameters = *each.mutable_inputs(0)->mutable_parameters();
    parameters["shared_memory_region"].set_string_param("sparse");
    parameters["shared_memory_byte_size"].set_int64_param(static_cast<std::int64_t>(bytes));
    api::ModelInferResponse response;
    return infer(each, response);
  };
  const grpc::Status just_enough = asked(1024);
  EXPECT_TRUE(just_enough.ok()) << just_enough.error_message();
  ASSERT_EQ(asked(1040).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const grpc::Status too_much = asked(kBytes);
  EXPECT_EQ(too_much.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(too_much.error_message(),
              HasSubstr("a request may have 1024 there (--request-bytes)"));
  close(memory);
  shm_unlink(key.c_str());
}

TEST_F(GrpcTest, HasNoSharedMemoryWhereItIsOff) {
  ServiceOptions options;
  options.has_shared_memory = false;
  start(std::move(options));
  api::ServerMetadataResponse server;
  ASSERT_TRUE(ask(&Stub::ServerMetadata, {}, server).ok());
  EXPECT_THAT(server.extensions(), ::testing::Not(::testing::Contains("system_shared_memory")));
  api::SystemSharedMemoryRegisterRequest of;
  api::SystemSharedMemoryRegisterResponse registered;
  of.set_name("all");
  of.set_key("/tessera_grpc_off_test");
  of.set_byte_size(1);
  const grpc::Status refused = ask(&Stub::SystemSharedMemoryRegister, of, registered);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("shared memory is off"));
}

// By its key, not only by the name that the tenant gives it.
TEST_F(GrpcTest, GivesATenantOnlySharedMemoryOfItsKeys) {
  ServiceOptions options;
  std::vector<std::string> audit;
  options.access = Access::parse(R"({"tenants": [
      {"name": "one", "token": "0123456789abcdef", "shared_memory": ["/tessera_one_"]},
      {"name": "two", "token": "fedcba9876543210", "operator": true}]})",
                                 [&](const std::string& line) { audit.push_back(line); })
                       .value();
  start(std::move(options));
  const std::string key = "/tessera_one_" + std::to_string(getpid());
  const int memory = shm_open(key.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(memory, 0);
  ASSERT_EQ(ftruncate(memory, 16), 0);
  api::SystemSharedMemoryRegisterRequest of;
  api::SystemSharedMemoryRegisterResponse registered;
  of.set_name("r");
  of.set_key(key);
  of.set_byte_size(16);
  token_ = "fedcba9876543210";
  grpc::Status refused = ask(&Stub::SystemSharedMemoryRegister, of, registered);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("in the token file allows none"));
  ASSERT_EQ(audit.size(), 1u);
  EXPECT_THAT(audit[0], HasSubstr("not its key"));
  token_ = "0123456789abcdef";
  EXPECT_TRUE(ask(&Stub::SystemSharedMemoryRegister, of, registered).ok());
  of.set_key("/tessera_two");
  refused = ask(&Stub::SystemSharedMemoryRegister, of, registered);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("keys that begin with '/tessera_one_'"));
  close(memory);
  shm_unlink(key.c_str());
}

TEST_F(GrpcTest, AsksForATokenAndShowsATenantItsOwn) {
  ServiceOptions options;
  std::vector<std::string> audit;
  options.access = Access::parse(R"({"tenants": [
      {"name": "one", "token": "0123456789abcdef", "models": ["sca*"]},
      {"name": "two", "token": "fedcba9876543210", "models": ["on_sim"], "requests_at_once": 1}]})",
                                 [&](const std::string& line) { audit.push_back(line); })
                       .value();
  start(std::move(options));
  api::ModelInferRequest each = request("scale");
  each.add_raw_input_contents(raw({1, 2, 3, 4}));
  api::ModelInferResponse response;
  EXPECT_EQ(infer(each, response).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  token_ = "0123456789abcdeX";
  EXPECT_EQ(infer(each, response).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  ASSERT_EQ(audit.size(), 2u);
  EXPECT_THAT(audit[1], HasSubstr("unknown token"));
  EXPECT_THAT(audit[1], Not(HasSubstr("0123456789")));
  token_ = "0123456789abcdef";
  EXPECT_TRUE(infer(each, response).ok());
  api::RepositoryIndexResponse index;
  ASSERT_TRUE(ask(&Stub::RepositoryIndex, {}, index).ok());
  ASSERT_EQ(index.models_size(), 2);  // its versions
  for (const auto& row : index.models()) EXPECT_EQ(row.name(), "scale");
  api::RepositoryModelUnloadRequest unload;
  api::RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("scale");
  EXPECT_EQ(ask(&Stub::RepositoryModelUnload, unload, unloaded).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  token_ = "fedcba9876543210";
  EXPECT_EQ(infer(each, response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcTest, EndsWhenWhatItOwesIsAnswered) {
  start();
  service_->begin_shutdown();
  api::ModelInferRequest each = request("scale");
  each.add_raw_input_contents(raw({1, 2, 3, 4}));
  api::ModelInferResponse response;
  EXPECT_EQ(infer(each, response).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(service_->is_idle());
  EXPECT_TRUE(server_->finish(std::chrono::seconds(20)));
}

// A stream that waits for nothing is in nobody's way.
TEST_F(GrpcTest, EndsAnIdleStreamAtOnce) {
  start();
  grpc::ClientContext context, context_without;
  const auto stream = stub_->ModelStreamInfer(&context);
  const auto without = stub_->ModelStreamInfer(&context_without);  // a request
  api::ModelInferRequest each = request("scale");
  each.add_raw_input_contents(raw({1, 2, 3, 4}));
  api::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Write(each));
  ASSERT_TRUE(stream->Read(&response));
  service_->begin_shutdown();
  server_->begin_shutdown();
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the server is shutting down");
  EXPECT_FALSE(without->Read(&response));
  EXPECT_EQ(without->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  grpc::ClientContext late_context;
  const auto late = stub_->ModelStreamInfer(&late_context);
  EXPECT_FALSE(late->Read(&response));
  EXPECT_EQ(late->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(server_->finish(std::chrono::seconds(20)));
}

// Each request that a stream has given before the end has its answer, or is refused by name.
TEST_F(GrpcTest, AnswersWhatAStreamHasGivenBeforeItEnds) {
  // Each run takes a tenth of a second or so.
  folder_.write("slow/1/model.onnx", scaled(2));
  folder_.write("slow/config.json", R"({"device": "sim", "pace": 0.00001})");
  start();
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  api::ModelInferRequest each = request("slow");
  each.set_model_name("slow");
  each.add_raw_input_contents(raw({1, 2, 3, 4}));
  constexpr int kRequests = 3;
  for (int i = 0; i < kRequests; ++i) ASSERT_TRUE(stream->Write(each));
  while (service_->all_served({}).back()->statistics().pending < 2) std::this_thread::yield();
  service_->begin_shutdown();
  server_->begin_shutdown();
  EXPECT_FALSE(service_->is_idle());
  int answers = 0;
  api::ModelStreamInferResponse response;
  for (; stream->Read(&response); ++answers) {
    EXPECT_THAT(response.error_message(), ::testing::AnyOf("", "the server is shutting down"));
  }
  EXPECT_GE(answers, 2);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(server_->finish(std::chrono::seconds(20)));
}

TEST(GrpcServer, SaysThatThePortIsTaken) {
  const testing::ModelFolder folder("grpc_port_test");
  const auto service = folder.serve();
  const auto first = GrpcServer::start(*service, {.port = 0}).value();
  const auto second = GrpcServer::start(*service, {.port = first->port()});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("the port is taken"));
}

// Every datatype has a place in `contents`, or none that is refused by name.
TEST(GrpcMessage, TakesEveryDatatype) {
  const std::vector<std::pair<Format, std::function<void(api::InferTensorContents&)>>> all = {
      {Format::kBool, [](auto& of) { of.add_bool_contents(true); }},
      {Format::kI8, [](auto& of) { of.add_int_contents(-128); }},
      {Format::kI16, [](auto& of) { of.add_int_contents(-32768); }},
      {Format::kI32, [](auto& of) { of.add_int_contents(-5); }},
      {Format::kI64, [](auto& of) { of.add_int64_contents(-6); }},
      {Format::kU8, [](auto& of) { of.add_uint_contents(255); }},
      {Format::kU16, [](auto& of) { of.add_uint_contents(65535); }},
      {Format::kU32, [](auto& of) { of.add_uint_contents(7); }},
      {Format::kU64, [](auto& of) { of.add_uint64_contents(8); }},
      {Format::kF32, [](auto& of) { of.add_fp32_contents(0.5F); }},
      {Format::kF64, [](auto& of) { of.add_fp64_contents(0.25); }},
      {Format::kF16, [](auto& of) { of.add_fp32_contents(1); }},
      {Format::kBf16, [](auto& of) { of.add_fp32_contents(1); }},
  };
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kFormatCount));
  for (const auto& [format, put] : all) {
    const ModelForm form = {{{"x", format, {1}}}, {{"y", format, {1}}}};
    api::ModelInferRequest message;
    auto& input = *message.add_inputs();
    input.set_name("x");
    input.set_datatype(std::string(datatype_of(format)));
    input.add_shape(1);
    put(*input.mutable_contents());
    const auto parsed = parse_infer(message, form, {});
    const bool is_raw_only = format == Format::kF16 || format == Format::kBf16;
    ASSERT_EQ(parsed.ok(), !is_raw_only) << datatype_of(format);
    if (is_raw_only) {
      EXPECT_THAT(parsed.error().message, HasSubstr("has no form in 'contents'"));
      continue;
    }
    EXPECT_EQ(parsed->inputs[0].bytes.size(), static_cast<std::size_t>(format_bytes(format)));
  }
}

TEST(GrpcMessage, RefusesNumbersThatDoNotFit) {
  const ModelForm form = {{{"x", Format::kI8, {1}}}, {{"y", Format::kI8, {1}}}};
  api::ModelInferRequest message;
  auto& input = *message.add_inputs();
  input.set_name("x");
  input.set_datatype("INT8");
  input.add_shape(1);
  input.mutable_contents()->add_int_contents(128);
  EXPECT_THAT(parse_infer(message, form, {}).error().message,
              HasSubstr("128 is no whole number from -128 to 127"));
}

}  // namespace
}  // namespace tessera::serve
