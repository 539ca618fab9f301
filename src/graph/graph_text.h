// A graph as text, and back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "graph/graph.h"

namespace tessera::graph {

// Readable text, and back. Constants are references "@name" into a side table. parse(dump(g)) == g
// for everything but the constants' bytes.
std::string dump(const Graph& graph);
using ConstantLookup = std::function<std::shared_ptr<const Tensor>(const std::string& tensor_name)>;
Result<Graph> parse(const std::string& text, const ConstantLookup& constants);

}  // namespace tessera::graph
