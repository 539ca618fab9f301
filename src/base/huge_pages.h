// Memory that is about to be written for the first time, as few large pages where the system has them: a fault for
// each of many small ones takes longer than what is written.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera {

// `size` zeros.
std::vector<std::byte> zeros_in_huge_pages(std::size_t size);

}  // namespace tessera
