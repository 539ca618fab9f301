// Two small networks with random weights, and what the tests of the C interface share.
//
//   picture [1, 3, 32, 96] ─► detector ─► map [1, 1, 32, 96], four bands of 8 rows
//   band [1, 1, 8, 96] ─► recogniser ─► [1, 7, 2, 24]
#pragma once

#include "tessera/session.h"
#include "tessera/tessera_c.h"

namespace tessera::c_test {

Network detector();
Network recogniser();
Tensor some_input(const Network& network, unsigned seed);
tessera_tensor view(const Tensor& tensor);
// The message of an error, which is released; "" for none.
std::string message(tessera_error* error);

// A runtime with one device, which has the network, and a pipeline with a stream.
struct OnePipeline {
  OnePipeline() = default;
  OnePipeline(const OnePipeline&) = delete;
  OnePipeline& operator=(const OnePipeline&) = delete;
  ~OnePipeline() { release(); }

  // What goes wrong is a failure of the test.
  void open(const tessera_network* network, const tessera_device_options& device,
            bool device_form = false);
  // Gives all back.
  void release();

  tessera_runtime* runtime = nullptr;
  tessera_model* model = nullptr;
  tessera_pipeline* pipeline = nullptr;
  tessera_stream* stream = nullptr;
};

}  // namespace tessera::c_test
