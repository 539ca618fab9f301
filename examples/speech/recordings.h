// Several recordings at once: each is a stream whose next task needs the state that the last one
// returned; what one waits for, the others fill. The states stay on the device.
//
//   stream of each recording:   chunk 0, 1, 2 ... ─► [pre | detect | post] ─► probabilities,
//                                                         ▲ state │           in order
//                                                         └───────┘
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "streaming.h"
#include "voice.h"

namespace speech {

// What became of one recording.
struct RecordingResult {
  std::shared_ptr<Voice> voice;  // shared with its tasks
  std::string error;             // empty: all chunks are done
};

struct Detection {
  std::vector<RecordingResult> recordings;  // in the order given
  streaming::Use use;
};

struct StreamsOptions {
  std::vector<tessera::DeviceOptions> devices;
  std::string trace = {};  // file for what ran when, written at the end, if not empty
  std::string http = {};   // where to serve a live page, if not empty
};

// A recording that fails is reported by its error; the others go on.
tessera::Result<Detection> detect_streams(const tessera::Network& network,
                                          const StreamsOptions& options,
                                          std::vector<Recording> recordings);

// The same, one chunk after the other through one session.
tessera::Result<Detection> detect_one_by_one(const tessera::Network& network,
                                             const tessera::SessionOptions& session,
                                             std::vector<Recording> recordings);

}  // namespace speech
