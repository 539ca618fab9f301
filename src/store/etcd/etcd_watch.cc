// A watch over etcd's stream. A thread keeps one stream open to one member and goes on at the next
// where that is silent, without leader or gone, from the revision behind the last that came.
//
//   member ══ stream ══► thread ─► batches (bounded) ─► next()
//
// The thread asks for a sign of life every second without an answer: a member that is stopped keeps
// its connections open.
#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "store/etcd/endpoints.h"

namespace tessera::store::etcd {
namespace {

constexpr std::size_t kBatchesMax = 64;
constexpr Milliseconds kPing{1000}, kSilence{3000}, kPause{100};

enum class Tag : std::size_t { kStart, kWrite, kRead, kFinish };

// One stream, from its opening to its end. Used by the thread alone, but for the context's TryCancel().
struct Stream {
  // gRPC gives their addresses back.
  std::array<Tag, 4> tags{Tag::kStart, Tag::kWrite, Tag::kRead, Tag::kFinish};
  void* tag(Tag which) { return &tags[static_cast<std::size_t>(which)]; }

  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      calls;
  etcdserverpb::WatchRequest request;
  etcdserverpb::WatchResponse response;
  grpc::Status status;
  bool is_writing = false, has_ended = false;
};

class EtcdWatch : public Watch {
 public:
  EtcdWatch(std::shared_ptr<Endpoints> endpoints, std::string prefix, WatchOptions options)
      : endpoints_(std::move(endpoints)),
        prefix_(std::move(prefix)),
        on_ready_(std::move(options.on_ready)),
        next_(options.from),
        index_(endpoints_->preferred()) {
    thread_ = std::thread([this] { run(); });
  }
  ~EtcdWatch() override {
    EtcdWatch::cancel();
    thread_.join();
  }

  Result<std::optional<Batch>> next(Milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline_after(timeout),
                        [this] { return is_cancelled_ || !batches_.empty() || refusal_; });
    if (is_cancelled_) return std::optional<Batch>();
    if (batches_.empty()) {
      if (refusal_) return *refusal_;
      was_told_ = false;
      return std::optional<Batch>();
    }
    std::optional<Batch> batch = std::move(batches_.front());
    batches_.pop_front();
    changed_.notify_all();
    return batch;
  }

  void cancel() override {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    if (stream_ != nullptr) stream_->context.TryCancel();
    changed_.notify_all();
  }

 private:
  void run() {
    while (!is_over()) {
      Endpoint& endpoint = endpoints_->at(index_);
      if (Endpoints::connect(endpoint, Clock::now() + endpoints_->attempt_time())) {
        read_from(endpoint);
      }
      ++index_;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kPause, [this] { return is_cancelled_ || is_complete_; });
    }
  }

  bool is_over() {
    const std::lock_guard lock(mutex_);
    return is_cancelled_ || is_complete_;
  }

  // Until the stream ends, for whatever reason.
  void read_from(Endpoint& endpoint) {
    Stream stream;
    if (!open(endpoint, stream)) return;
    Clock::time_point heard = Clock::now(), asked = heard;
    bool has_created = false;
    while (!stream.has_ended) {
      void* tag = nullptr;
      bool is_good = false;
      const auto got =
          stream.queue.AsyncNext(&tag, &is_good, std::chrono::system_clock::now() + kPing);
      if (got == grpc::CompletionQueue::GOT_EVENT) {
        const Tag what = *static_cast<const Tag*>(tag);
        if (what == Tag::kRead && is_good) heard = Clock::now();
        on_event(stream, what, is_good);
      }
      has_created |= stream.response.created();
      const Clock::time_point now = Clock::now();
      if (now - heard > kSilence) stream.context.TryCancel();
      if (has_created && !stream.is_writing && now - std::max(heard, asked) > kPing) {
        stream.request.Clear();
        stream.request.mutable_progress_request();
        write(stream);
        asked = now;
      }
    }
    close(stream);
  }

  bool open(Endpoint& endpoint, Stream& stream) {
    if (const grpc::Status status = endpoints_->prepare(endpoint, stream.context); !status.ok()) {
      return false;
    }
    {
      const std::lock_guard lock(mutex_);
      if (is_cancelled_) return false;
      stream_ = &stream;
    }
    stream.calls = endpoint.watch->PrepareAsyncWatch(&stream.context, &stream.queue);
    stream.calls->StartCall(stream.tag(Tag::kStart));
    return true;
  }

  static void write(Stream& stream) {
    stream.is_writing = true;
    stream.calls->Write(stream.request, stream.tag(Tag::kWrite));
  }

  void on_event(Stream& stream, Tag what, bool is_good) {
    switch (what) {
      case Tag::kStart:
        if (!is_good) break;  // the read below says so
        set_prefix(*stream.request.mutable_create_request(), prefix_);
        stream.request.mutable_create_request()->set_start_revision(next_);
        write(stream);
        break;
      case Tag::kWrite:
        stream.is_writing = false;
        return;
      case Tag::kRead:
        if (!is_good || !take(stream.response)) {
          finish(stream);
          return;
        }
        break;
      case Tag::kFinish:
        stream.has_ended = true;
        return;
    }
    stream.calls->Read(&stream.response, stream.tag(Tag::kRead));
  }

  static void finish(Stream& stream) {
    stream.context.TryCancel();
    stream.calls->Finish(&stream.status, stream.tag(Tag::kFinish));
  }

  // What is still under way comes out of the queue before the stream goes.
  void close(Stream& stream) {
    {
      const std::lock_guard lock(mutex_);
      stream_ = nullptr;
    }
    stream.queue.Shutdown();
    void* tag = nullptr;
    bool is_good = false;
    while (stream.queue.Next(&tag, &is_good)) {
    }
    if (stream.status.error_code() == grpc::StatusCode::UNAUTHENTICATED) endpoints_->forget_token();
    if (stream.status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
      refuse(stream.status.error_message());
    }
  }

  // False: nothing more is wanted from this stream.
  bool take(const etcdserverpb::WatchResponse& response) {
    const std::uint64_t cluster = response.header().cluster_id();
    if (cluster_ == 0) cluster_ = cluster;
    if (cluster != cluster_) {  // another store: what it has has nothing to do with what was seen
      deliver({.is_gap = true});
      return false;
    }
    if (response.compact_revision() != 0) {
      deliver({.is_gap = true, .revision = response.compact_revision()});
      return false;
    }
    if (response.canceled()) {
      const bool comes_back = response.cancel_reason().find("no leader") != std::string::npos ||
                              response.cancel_reason().empty();
      if (!comes_back) refuse(response.cancel_reason());
      return false;
    }
    if (response.events_size() == 0) return true;
    Batch batch;
    for (const mvccpb::Event& event : response.events()) {
      batch.changes.push_back(
          {.kind = event.type() == mvccpb::Event::DELETE ? ChangeKind::kDelete : ChangeKind::kPut,
           .entry = entry_of(event.kv())});
    }
    batch.revision = batch.changes.back().entry.modified;
    next_ = batch.revision + 1;
    return deliver(std::move(batch));
  }

  bool deliver(Batch batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_cancelled_ || batches_.size() < kBatchesMax; });
    if (is_cancelled_) return false;
    is_complete_ = batch.is_gap;
    batches_.push_back(std::move(batch));
    tell();
    return true;
  }

  void refuse(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    refusal_ = Error{ErrorCode::kInvalidArgument,
                     fmt::format("{}: watch '{}': {}", endpoints_->describe(), prefix_, reason)};
    is_complete_ = true;
    tell();
  }

  void tell() {  // with the mutex
    changed_.notify_all();
    if (std::exchange(was_told_, true)) return;
    if (on_ready_) on_ready_();
  }

  const std::shared_ptr<Endpoints> endpoints_;  // shared with the store and its other watches
  const std::string prefix_;
  const std::function<void()> on_ready_;
  // Of the thread.
  Revision next_;
  std::size_t index_;
  std::uint64_t cluster_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> batches_;
  std::optional<Error> refusal_;
  bool is_cancelled_ = false, is_complete_ = false, was_told_ = false;
  Stream* stream_ = nullptr;  // for cancel()
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Watch> start_watch(std::shared_ptr<Endpoints> endpoints, std::string prefix,
                                   WatchOptions options) {
  return std::make_unique<EtcdWatch>(std::move(endpoints), std::move(prefix), std::move(options));
}

}  // namespace tessera::store::etcd
