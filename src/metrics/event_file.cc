#include "metrics/event_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/guarded.h"
#include "metrics/exports.h"

namespace tessera::metrics {
namespace {

constexpr std::size_t kEventsOfAWrite = 4096;

}  // namespace

Result<std::unique_ptr<EventFile>> EventFile::open(Collector& collector, const std::string& path,
                                                   std::size_t waiting_max) {
  TESSERA_TRY(OutputFile file, OutputFile::create(path));
  TESSERA_RETURN_IF_ERROR(file.publish());
  std::unique_ptr<EventFile> events(new EventFile(collector, std::move(file), waiting_max));
  TESSERA_RETURN_IF_ERROR(guarded("recording events", [&] { return events->start(); }));
  return events;
}

EventFile::EventFile(Collector& collector, OutputFile file, std::size_t waiting_max)
    : collector_(collector),
      waiting_max_(waiting_max),
      file_(std::move(file)),
      dropped_before_(collector.recorder().dropped()) {}

Status EventFile::start() {
  thread_ = std::thread([this] { run(); });
  follower_ = collector_.follow([this](std::span<const Event> events) { take(events); });
  return {};
}

EventFile::~EventFile() {
  (void)guarded("", [this] { return close(); });
}

void EventFile::take(std::span<const Event> events) {
  const std::lock_guard lock(mutex_);
  if (!progress_.status.ok() || waiting_.size() + events.size() > waiting_max_) {
    progress_.lost += std::ssize(events);
    return;
  }
  try {
    waiting_.insert(waiting_.end(), events.begin(), events.end());
  } catch (const std::bad_alloc&) {
    progress_.lost += std::ssize(events);
  }
  work_.notify_one();
}

void EventFile::run() {
  std::vector<Event> writing;
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::swap(waiting_, writing);
    lock.unlock();
    for (std::span<const Event> rest(writing); !rest.empty();) {
      const std::span<const Event> piece = rest.first(std::min(rest.size(), kEventsOfAWrite));
      try {
        write(json_lines_text(piece, collector_.recorder().sources()), std::ssize(piece));
      } catch (const std::bad_alloc&) {
        const std::lock_guard losing(mutex_);
        progress_.lost += std::ssize(piece);
      }
      rest = rest.subspan(piece.size());
    }
    writing.clear();
    lock.lock();
  }
}

void EventFile::write(const std::string& text, std::int64_t events) {
  const bool failed_before = !progress().status.ok();
  const Status written = failed_before ? Status() : file_.write(text);
  const std::lock_guard lock(mutex_);
  if (!failed_before && written.ok()) {
    progress_.events += events;
    progress_.bytes += std::ssize(text);
    return;
  }
  progress_.lost += events;
  if (failed_before) return;
  progress_.status = Error{written.error().code,
                           fmt::format("{}; {} events were written; make room and record again",
                                       written.error().message, progress_.events)};
}

Status EventFile::close() {
  const std::lock_guard one(closing_mutex_);
  if (closed_) return progress().status;
  if (follower_) collector_.unfollow(*follower_);
  follower_.reset();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
  {
    const std::lock_guard lock(mutex_);
    dropped_at_end_ = collector_.recorder().dropped();
  }
  const Progress now = progress();
  write(end_line_text({.events = now.events, .lost = now.lost}), 0);
  const Status committed = file_.commit();
  closed_ = true;
  const std::lock_guard lock(mutex_);
  if (!committed.ok() && progress_.status.ok()) progress_.status = committed;
  return progress_.status;
}

EventFile::Progress EventFile::progress() const {
  const std::int64_t dropped = collector_.recorder().dropped();
  const std::lock_guard lock(mutex_);
  Progress now = progress_;
  now.lost += dropped_at_end_.value_or(dropped) - dropped_before_;
  return now;
}

}  // namespace tessera::metrics
