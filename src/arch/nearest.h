// The nearest of a list of names, for "did you mean".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera {

// The name with the fewest letters inserted, deleted or replaced; "" where even that one differs in
// more than a third of its letters (at least two are allowed). The first of equals wins.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

}  // namespace tessera
