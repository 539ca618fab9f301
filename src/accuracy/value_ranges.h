// How far the values of a model reach in float32, by the names that the model gives them.
#pragma once

#include <map>
#include <set>
#include <string>

#include "accuracy/trial.h"

namespace tessera::accuracy {

// The largest magnitude over all cases of each float value that is not a constant; infinite for one that has an infinity or
// a NaN. Nothing is fused, so that each is there.
Result<std::map<std::string, double>> largest_magnitudes(const Trials& trials);

// Of those the names beyond half of what `vector` holds.
std::set<std::string> out_of_range(const std::map<std::string, double>& largest, Format vector);

}  // namespace tessera::accuracy
