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
// The message of an error, which is given back; "" for none.
std::string message(tessera_error* error);

}  // namespace tessera::c_test
