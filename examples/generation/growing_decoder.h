// A decoder as CachedDecoder's, whose keys and values stay on the device and grow there by a row a run. The
// model has an attention mask, so that one network serves many lengths.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "costs.h"
#include "tessera/growing_session.h"

namespace generation {

class GrowingDecoder {
 public:
  static tessera::Result<GrowingDecoder> open(const std::string& path, const std::string& arch,
                                              std::int64_t tokens_max,
                                              const tessera::SessionOptions& session);
  // Begins a new text.
  tessera::Status forget() { return session_.clear(); }
  // One token behind those before it. The logits of the next one; `costs` gets the run.
  tessera::Result<std::vector<float>> step(std::int64_t token, Costs& costs);
  std::int64_t networks_compiled() const { return session_.networks_compiled(); }

 private:
  explicit GrowingDecoder(tessera::GrowingSession session) : session_(std::move(session)) {}
  tessera::Result<tessera::Tensor> input(const std::string& name, std::int64_t token) const;

  tessera::GrowingSession session_;
};

}  // namespace generation
