#include "metrics/event_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "metrics/event_lines.h"

namespace tessera::metrics {
namespace {

class EventFileTest : public testing::Test {
 protected:
  EventFileTest()
      : collector_(recorder_, {.period = std::chrono::milliseconds(0), .events_kept = 16}) {
    kernel_ =
        recorder_
            .add_source({.kind = SourceKind::kKernel, .name = "kernel \"A\"", .device = "sim0"})
            .value();
  }
  ~EventFileTest() override { std::filesystem::remove(path_); }

  // Runs of 5 ns, one every 10 ns; drained now and then, so that no ring is full.
  void record(int count) {
    for (int i = 0; i < count; ++i, ++next_) {
      recorder_.record({.kind = EventKind::kKernelRun,
                        .source = kernel_,
                        .stream = 3,
                        .begin_ns = 10 * next_,
                        .end_ns = 10 * next_ + 5,
                        .packet = static_cast<std::uint64_t>(next_),
                        .value = -next_});
      if (i % 1000 == 999) collector_.drain();
    }
  }
  EventLines read() {
    EventLines lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const Status added = lines.add(line);
      EXPECT_TRUE(added.ok()) << line;
    }
    return lines;
  }

  const std::string path_ = testing::TempDir() + "tessera_event_file_test.jsonl";
  Recorder recorder_;
  Collector collector_;
  SourceId kernel_;
  std::int64_t next_ = 0;
};

TEST_F(EventFileTest, HoldsEveryEventOfARunLongerThanTheMemory) {
  record(100);
  collector_.drain();  // before the file is opened
  const auto file = EventFile::open(collector_, path_).value();
  constexpr int kEvents = 50'000;
  record(kEvents);
  ASSERT_TRUE(file->close().ok());
  EXPECT_EQ(file->progress().events, kEvents);
  EXPECT_EQ(file->progress().bytes, static_cast<std::int64_t>(std::filesystem::file_size(path_)));
  record(100);  // after it
  EventLines lines = read();
  ASSERT_EQ(lines.events().size(), static_cast<std::size_t>(kEvents));
  for (int i = 0; i < kEvents; ++i) {
    const Event& event = lines.events()[static_cast<std::size_t>(i)];
    const std::int64_t number = 100 + i;
    ASSERT_EQ(event.packet, static_cast<std::uint64_t>(number));
    EXPECT_EQ(event.kind, EventKind::kKernelRun);
    EXPECT_EQ(event.stream, 3U);
    EXPECT_EQ(event.begin_ns, 10 * number);
    EXPECT_EQ(event.end_ns, 10 * number + 5);
    EXPECT_EQ(event.value, -number);
  }
  ASSERT_TRUE(lines.end().has_value());
  EXPECT_EQ(lines.end()->events, kEvents);
  EXPECT_EQ(lines.end()->lost, 0);
  EXPECT_EQ(lines.sources()[0].description.name, "kernel \"A\"");
  EXPECT_EQ(lines.sources()[0].description.device, "sim0");
}

TEST_F(EventFileTest, WhatFindsNoRoomBeforeTheDiskIsCounted) {
  const auto file = EventFile::open(collector_, path_, 100).value();
  record(999);  // in one go, more than may wait
  collector_.drain();
  record(10);
  ASSERT_TRUE(file->close().ok());
  EXPECT_EQ(file->progress().events + file->progress().lost, 1009);
  EXPECT_GE(file->progress().lost, 899);
  const EventLines lines = read();
  EXPECT_EQ(lines.end()->events, file->progress().events);
  EXPECT_EQ(lines.end()->lost, file->progress().lost);
}

TEST_F(EventFileTest, ErrorsOfTheDiskAreTold) {
  EXPECT_EQ(EventFile::open(collector_, "/absent/file").error().message,
            "writing '/absent/file': No such file or directory");
  const auto file = EventFile::open(collector_, "/dev/full").value();
  record(2000);
  const Status closed = file->close();
  EXPECT_EQ(closed.error().message,
            "writing '/dev/full': No space left on device; 0 events were written; make room and "
            "record again");
  EXPECT_EQ(file->progress().lost, 2000);
  EXPECT_EQ(file->close().error().message, closed.error().message);
}

TEST(EventLines, WhatIsNoEventIsNamed) {
  EventLines lines;
  const auto wrong = [&](const char* line) { return lines.add(line).error().message; };
  EXPECT_EQ(wrong("nonsense"), "it is no JSON object");
  EXPECT_EQ(wrong("{}"), "'kind' is no text");
  EXPECT_EQ(wrong(R"({"kind":"tea break"})"), "there is no kind of event 'tea break'");
  const std::string start = R"({"kind":"kernel run","stream":0,"packet":1,"value":0,)";
  EXPECT_EQ(wrong((start + R"("begin_ns":5,"end_ns":4})").c_str()),
            "it begins at 5 ns and ends at 4");
  EXPECT_EQ(wrong((start + R"("begin_ns":5,"end_ns":18446744073709551615})").c_str()),
            "'end_ns' is no whole number");
  EXPECT_EQ(wrong((start + R"("begin_ns":5,"end_ns":6})").c_str()), "'source' is no text");
  EXPECT_EQ(wrong(R"({"kind":"end of events"})"), "'events' is no whole number");
  EXPECT_TRUE(lines.events().empty());
}

}  // namespace
}  // namespace tessera::metrics
