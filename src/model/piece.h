// Pieces of a model as models of their own: some of its nodes, in their order, and the graphs of its control flow. What a
// piece reads of the rest are its inputs; constants come along.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "model/model.h"

namespace tessera::model {

// The names that a node reads, each once: its inputs, and what graphs in its attributes read of the values around them.
std::vector<std::string> names_read(const Node& node);

// The format of a value of the rest.
using FormatOf = std::function<Format(const std::string& name)>;

// Nodes `begin` to `end` (which is behind the last) of the model's own graph. Outputs: those of their values that later nodes
// or the model's outputs are, in the order in which they are made.
Model piece_of(const Model& model, std::size_t begin, std::size_t end, const FormatOf& format_of);

// A graph in an attribute of one of the model's own nodes. Its inputs come first, in their order, with the formats that
// `format_of` gives for their names; then what it reads of the model's values.
Model body_piece(const Model& model, const Subgraph& body, const FormatOf& format_of);

}  // namespace tessera::model
