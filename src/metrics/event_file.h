// Every event of a long run in a file of JSON lines, written while the run goes on. The collector
// keeps the newest events only; this keeps all.
//
//   Collector ─ follow() ─► [ waiting, bounded ] ─► thread: text ─► file
//
// The collector never waits for the disk: what finds no room is lost and counted, and so is what
// comes after an error of the disk. close() writes all that is there and a last line with the
// counts; a file without it is of a program that was killed, or still runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/output_file.h"
#include "metrics/collector.h"

namespace tessera::metrics {

class EventFile {
 public:
  struct Progress {
    std::int64_t events = 0, bytes = 0;  // written
    std::int64_t lost = 0;               // there was no room for them, here or in the recorder
    Status status;                       // the first error of the disk
  };
  static constexpr std::size_t kWaitingMax = 1 << 18;

  // The collector outlives the file. What is at `path` is replaced at once by a new file, which can
  // be read while it grows; a file that another recording still writes goes on without its name.
  static Result<std::unique_ptr<EventFile>> open(Collector& collector, const std::string& path,
                                                 std::size_t waiting_max = kWaitingMax);
  ~EventFile();  // closes
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // All events up to now are in the file when this returns; the error is the first of the disk.
  Status close();
  Progress progress() const;

 private:
  EventFile(Collector& collector, OutputFile file, std::size_t waiting_max);
  Status start();
  void take(std::span<const Event> events);
  void run();
  void write(const std::string& text, std::int64_t events);

  Collector& collector_;
  const std::size_t waiting_max_;
  OutputFile file_;  // of the thread, while it runs
  const std::int64_t dropped_before_;
  std::mutex closing_mutex_;  // one close() at a time; before mutex_
  bool closed_ = false;
  std::optional<std::uint64_t> follower_;       // none: it was never one
  mutable std::mutex mutex_;                    // all below
  std::optional<std::int64_t> dropped_at_end_;  // of the recorder's; since close()
  std::condition_variable work_;
  std::vector<Event> waiting_;
  Progress progress_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace tessera::metrics
