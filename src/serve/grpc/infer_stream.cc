#include "serve/grpc/infer_stream.h"

#include <deque>
#include <utility>

#include "serve/grpc/infer_message.h"
#include "serve/grpc/status.h"

namespace tessera::serve {

namespace api = inference;

// A stream of requests: each is answered as soon as it is done. gRPC has it until OnDone(); whoever ends all streams
// has it for that time, too.
class InferStream : public InferStreams::Reactor {
 public:
  static std::shared_ptr<InferStream> start(Service& service, Client client,
                                            std::chrono::system_clock::time_point deadline) {
    std::shared_ptr<InferStream> stream(new InferStream(service, std::move(client), deadline));
    stream->self_ = stream;
    stream->StartRead(&stream->request_);
    return stream;
  }

  // Takes no more requests, and ends as soon as those that it has taken are answered.
  void shut_down() {
    bool ends = false;
    {
      const std::lock_guard lock(mutex_);
      shuts_down_ = true;
      ends = is_at_end();
    }
    if (ends) end();
  }

  void OnReadDone(bool is_there) override {
    if (!is_there) {
      bool ends = false;
      {
        const std::lock_guard lock(mutex_);
        has_all_ = true;
        ends = is_at_end();
      }
      if (ends) end();
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      if (is_finished_) return;
      ++open_;
    }
    service_.infer(
        client_, {request_.model_name(), request_.model_version()},
        [this](const ModelForm& form, const RegionsOfClient& regions) -> Result<InferRequest> {
          auto parsed = parse_infer(request_, form, regions);
          if (parsed.ok()) set_deadline(*parsed, deadline_);
          return parsed;
        },
        [this, id = request_.id()](InferOutcome outcome) -> Send {
          auto response = std::make_shared<api::ModelStreamInferResponse>();
          if (outcome.failure) {
            response->set_error_message(outcome.failure->message);
            response->mutable_infer_response()->set_id(id);
          } else {
            write_infer(outcome, *response->mutable_infer_response());
          }
          return [this, response] { send(response); };
        });
    const std::lock_guard lock(mutex_);
    // So many may be on their way; then the client has to take some.
    constexpr int kOpenMax = 64;
    is_full_ = open_ >= kOpenMax;
    read_on();
  }

  void OnWriteDone(bool went_well) override {
    bool ends = false;
    {
      const std::lock_guard lock(mutex_);
      responses_.pop_front();
      --open_;
      if (!went_well) {
        open_ -= static_cast<int>(responses_.size());
        responses_.clear();
        is_gone_ = true;
      }
      if (!responses_.empty()) StartWrite(responses_.front().get());
      if (std::exchange(is_full_, false)) read_on();
      ends = is_at_end();
    }
    if (ends) end();
  }

  void OnDone() override { self_.reset(); }

 private:
  InferStream(Service& service, Client client, std::chrono::system_clock::time_point deadline)
      : service_(service), client_(std::move(client)), deadline_(deadline) {}

  void send(const std::shared_ptr<api::ModelStreamInferResponse>& response) {
    bool ends = false;
    {
      const std::lock_guard lock(mutex_);
      if (is_gone_) {
        --open_;
        ends = is_at_end();
      } else {
        responses_.push_back(response);
        if (responses_.size() == 1) StartWrite(response.get());
      }
    }
    if (ends) end();
  }
  // Under the lock.
  void read_on() {
    if (!is_full_ && !shuts_down_) StartRead(&request_);
  }
  // True once, under the lock. end() comes behind it: with that the stream may be gone at once.
  bool is_at_end() {
    const bool takes_more = !has_all_ && !shuts_down_;
    return !takes_more && open_ == 0 && !std::exchange(is_finished_, true);
  }
  // A read that is under way ends with the call. Nothing but that changes has_all_ any more.
  void end() {
    const bool is_cut_off = [this] {
      const std::lock_guard lock(mutex_);
      return !has_all_;
    }();
    Finish(is_cut_off ? status_of(kShutsDown) : grpc::Status::OK);
  }

  Service& service_;
  const Client client_;
  const std::chrono::system_clock::time_point deadline_;
  std::shared_ptr<InferStream> self_;  // until OnDone()
  api::ModelInferRequest request_;     // that is being read
  std::mutex mutex_;
  std::deque<std::shared_ptr<api::ModelStreamInferResponse>>
      responses_;  // the first is being written
  int open_ = 0;   // requests that have been read and not been answered
  bool has_all_ = false, is_full_ = false, is_gone_ = false, is_finished_ = false;
  bool shuts_down_ = false;
};

InferStreams::InferStreams() = default;
InferStreams::~InferStreams() = default;

InferStreams::Reactor* InferStreams::start(Service& service, Client client,
                                           std::chrono::system_clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  if (is_over_) return nullptr;
  std::erase_if(streams_, [](const auto& stream) { return stream.expired(); });
  const auto stream = InferStream::start(service, std::move(client), deadline);
  streams_.push_back(stream);
  return stream.get();
}

void InferStreams::shut_down() {
  std::vector<std::weak_ptr<InferStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    streams.swap(streams_);
  }
  for (const auto& each : streams) {
    if (const auto stream = each.lock()) stream->shut_down();
  }
}

}  // namespace tessera::serve
