// Candidates whose library was not found at configure time.
#include "candidate.h"

namespace tessera::bench {

#ifndef TESSERA_BENCH_ZEROMQ
std::vector<Candidate> zeromq_candidates() { return {}; }
#endif
#ifndef TESSERA_BENCH_NNG
std::vector<Candidate> nng_candidates() { return {}; }
#endif
#ifndef TESSERA_BENCH_UCX
std::vector<Candidate> ucx_candidates() { return {}; }
#endif

}  // namespace tessera::bench
