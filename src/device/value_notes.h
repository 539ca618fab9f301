// What a run's values came to, for its result: the notes of graph/value_notes.h from what an executor or
// the virtual processor has seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "arith/block_float.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/value_notes.h"
#include "network/network.h"
#include "tessera/run_result.h"
#include "tessera/value_note.h"

namespace tessera::device {

using ValueNotes = std::shared_ptr<const std::vector<ValueNote>>;  // null: nothing to say

// As RunResult::status_flags.
std::uint32_t status_flags(const arith::StickyFlags& flags);

// `values` by node, `notes` of the same graph; `inputs` are the bytes of the graph's inputs.
ValueNotes value_notes(const graph::Graph& graph, const graph::NoteTable& notes,
                       std::span<const graph::NodeValues> values,
                       std::span<const std::span<std::byte>> inputs);
// Of a run of the network that has completed: of its executor, or by its layers, which have the names of the graph's
// nodes. `input(i)` is how far the input i reaches, and is asked where a note hangs on it. A program alone does not say
// what reads what: every layer of it is noted that is at the end of the vector format, or beyond.
std::vector<ValueNote> value_notes(const NetworkState& network, const Completion& completion,
                                   const std::function<ValueExtent(std::size_t input)>& input);

}  // namespace tessera::device
