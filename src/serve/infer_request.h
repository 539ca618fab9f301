// A request for inference as a model takes it, and how it is put together from what a client sent, the same way for
// every protocol: names, datatypes, shapes and regions are checked here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/failure.h"
#include "serve/shared_regions.h"
#include "tessera/network.h"
#include "tessera/tensor.h"

namespace tessera::serve {

// A part of a region of shared memory.
struct RegionPart {
  std::string name;
  std::shared_ptr<const SharedRegion> region;  // stays until the request is answered
  std::uint64_t offset = 0, bytes = 0;
};

// What an answer is to have.
struct WantedOutput {
  std::size_t index = 0;                  // of the network's outputs
  bool binary = false;                    // behind the JSON, or raw
  std::optional<RegionPart> region = {};  // it is written there instead
};

struct InferRequest {
  std::string id;              // given back; may be empty
  std::vector<Tensor> inputs;  // in the order of the network's
  std::vector<WantedOutput> outputs;
  int priority = 0;                                  // as SubmitOptions has it
  std::optional<std::chrono::microseconds> timeout;  // from now on
};

// What a model takes and gives, as clients see it.
struct ModelForm {
  std::vector<TensorDescription> inputs, outputs;  // a dimension of -1 is open
};

// Of the client that sent the request.
struct RegionsOfClient {
  const SharedRegions* regions = nullptr;  // null: it may name none
  std::string tenant;
  std::size_t bytes_max = std::size_t{64} << 20;  // of a request's inputs that lie there, together
};

class RequestBuilder {
 public:
  // All of them outlive the builder.
  RequestBuilder(const ModelForm& form, const RegionsOfClient& regions);

  // Begins an input; its number, for the calls below. `shape` is checked, open dimensions are taken from it.
  Result<std::size_t> begin_input(const std::string& name, std::string_view datatype, Shape shape);
  // Then one of these. make_room() is for elements one by one, of which the request has `elements_max` at most: what
  // a shape only says gets no memory.
  Status set_bytes(std::size_t input, std::string_view bytes);
  Status set_region(std::size_t input, const std::string& region, std::uint64_t offset,
                    std::uint64_t bytes);
  Result<Tensor*> make_room(std::size_t input, std::size_t elements_max);

  Status want(const std::string& name, bool binary, bool must_have_text);
  Status want_in_region(const std::string& name, const std::string& region, std::uint64_t offset,
                        std::uint64_t bytes);
  Status want_all(bool binary, bool must_have_text);

  void set_id(std::string id) { request_.id = std::move(id); }
  // 1 is the highest, 0 the default; levels beyond the lowest are the lowest.
  void set_priority(std::uint64_t priority);
  void set_timeout(std::uint64_t microseconds);  // 0: none

  // Every input is there.
  Result<InferRequest> finish();

 private:
  Result<std::size_t> output_of(const std::string& name);
  Result<RegionPart> part_of(const std::string& region, std::uint64_t offset, std::uint64_t bytes);
  std::size_t bytes_of(std::size_t input) const;

  const ModelForm& form_;
  const RegionsOfClient& regions_;
  std::vector<bool> is_there_;
  std::size_t region_bytes_ = 0;  // of the inputs that lie in regions
  InferRequest request_;
};

// `tensor`'s bytes go where `output` says. The error names the output.
Status write_region(const WantedOutput& output, const TensorDescription& description,
                    const Tensor& tensor);

std::string shape_text(const Shape& shape);  // "[1, 4]"

}  // namespace tessera::serve
