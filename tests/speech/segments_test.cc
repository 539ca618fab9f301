#include "segments.h"

#include <gtest/gtest.h>

namespace speech {
namespace {

// Chunks of a second; a silence of two seconds ends speech; segments of one second are kept.
const SegmentOptions kBySecond = {.threshold = 0.5,
                                  .threshold_end = 0.3,
                                  .silence_seconds = 2,
                                  .speech_seconds = 1,
                                  .margin_seconds = 0};

std::vector<Segment> segments(const std::vector<float>& probabilities,
                              const SegmentOptions& options = kBySecond) {
  return find_segments(probabilities, 1, static_cast<double>(probabilities.size()), options);
}

TEST(Segments, SilenceHasNone) {
  EXPECT_TRUE(segments({}).empty());
  EXPECT_TRUE(segments({0, 0.49f, 0.4f, 0}).empty());
}

TEST(Segments, BeginAtTheThresholdAndEndWhereTheSilenceBegan) {
  EXPECT_EQ(segments({0, 0.5f, 0.9f, 0.1f, 0.1f, 0.1f}), (std::vector<Segment>{{1, 3}}));
}

TEST(Segments, BetweenTheThresholdsSpeechGoesOnButDoesNotBegin) {
  EXPECT_EQ(segments({0.4f, 0.6f, 0.3f, 0.3f, 0.3f, 0, 0}), (std::vector<Segment>{{1, 5}}));
}

TEST(Segments, AShorterSilenceDoesNotEndThem) {
  EXPECT_EQ(segments({1, 0, 1, 0, 0, 1}), (std::vector<Segment>{{0, 3}, {5, 6}}));
}

TEST(Segments, SpeechAtTheEndEndsThereOrWhereItFellSilent) {
  EXPECT_EQ(segments({0, 1, 1}), (std::vector<Segment>{{1, 3}}));
  EXPECT_EQ(segments({0, 1, 1, 0}), (std::vector<Segment>{{1, 3}}));
  EXPECT_EQ(find_segments({0, 1, 1}, 1, 2.5, kBySecond), (std::vector<Segment>{{1, 2.5}}));
}

TEST(Segments, ShortOnesAreDropped) {
  SegmentOptions options = kBySecond;
  options.speech_seconds = 2;
  EXPECT_EQ(segments({1, 0, 0, 1, 1, 0, 0}, options), (std::vector<Segment>{{3, 5}}));
}

TEST(Segments, MarginsEndAtTheRecordingAndHalfWayToTheNeighbour) {
  SegmentOptions options = kBySecond;
  options.margin_seconds = 1.5;
  EXPECT_EQ(segments({0, 1, 0, 0, 1, 0}, options), (std::vector<Segment>{{0, 3}, {3, 6}}));
  options.margin_seconds = 0.5;
  EXPECT_EQ(segments({0, 1, 0, 0, 1, 0}, options), (std::vector<Segment>{{0.5, 2.5}, {3.5, 5.5}}));
}

}  // namespace
}  // namespace speech
