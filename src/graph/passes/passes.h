// The passes, in the order in which they run (passes.cc). Each is one file, which opens with the
// rewrites it performs and what holds before and after. Every pass leaves a graph that the verifier
// accepts, without dead nodes, in topological order.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "graph/build_options.h"
#include "graph/graph.h"

namespace tessera::graph {

struct Pass {
  std::string_view name;
  void (*run)(Graph& graph);
  bool settles_formats;  // from here on the verifier asks for final formats
};

std::span<const Pass> passes();

void fold_constant_moves(Graph& graph);
void drop_neutral(Graph& graph);
void fold_channel_constants(Graph& graph);
void fold_input_factors(Graph& graph);
void fuse_patterns(Graph& graph);
void widen_normalisation(Graph& graph);
void widen_angles(Graph& graph);
void widen_logits(Graph& graph);
void widen_magnitudes(Graph& graph);
void widen_scales(Graph& graph);
void fold_padding(Graph& graph);
// Values for widen_tensors() that a vector format does not hold well in any network.
std::set<std::string> whole_numbers(const Graph& graph);
// Likewise; the products among them get wider mantissas.
std::set<std::string> log_spectra(Graph& graph);
std::set<std::string> small_floors(const Graph& graph);
// Behind widen_scales, with whole_numbers(), log_spectra(), small_floors() and what BuildOptions::layers names.
void widen_tensors(Graph& graph, const std::set<std::string>& names);
// At the end: mantissa bits of both operands of products in block floating point, by the node's name.
void set_mantissa_bits(Graph& graph, const std::map<std::string, int>& bits);
void hoist_activations(Graph& graph);
void clean_moves(Graph& graph);
void fuse_activations(Graph& graph);
void fuse_quantisation(Graph& graph);
void equalise_channels(Graph& graph);
void number_formats(Graph& graph);
void load_constant_batches(Graph& graph);
void drop_dead(Graph& graph);
void fold_space_to_depth(Graph& graph);
void split_phases(Graph& graph);
void unshuffle_channels(Graph& graph);
// For a planar engine whose lanes copy so many elements in a cycle; 0: nothing is copied.
void unshuffle_channels_for(Graph& graph, std::int64_t lane_elements);
void group_pixels(Graph& graph);
void join_padded(Graph& graph);
void follow_pixels(Graph& graph);
void repeat_pixels(Graph& graph);
// For a processor with such a buffer.
void repeat_pixels_for(Graph& graph, const StateBuffer& buffer);
void interleave_parts(Graph& graph);
void nest_concatenations(Graph& graph);
void spread_products(Graph& graph);
// Results of Moves of constants that are larger are not made at compile time.
inline constexpr std::int64_t kFoldedBytesMax = std::int64_t{64} << 20;

// Not in the table: only where BuildOptions::quantise_vector_inputs asks for it, behind the table.
void quantise_vector_inputs(Graph& graph, const MatrixFormat& matrix);
// Behind it, and not with it, as it would quantise what is computed in between; before
// fuse_gain_bias, which takes parts of it.
void fuse_local_response(Graph& graph, const KernelMemory& memory);
// Behind it, and not with it: it would quantise the product.
void fuse_gain_bias(Graph& graph);
// Behind both: functions of single elements go into poolings and reductions.
void fuse_converters(Graph& graph);
// Behind all that changes operands: their shapes decide how vectors are quantised.
void arrange_axes(Graph& graph);
// The last one.
void order_small_nodes(Graph& graph);

}  // namespace tessera::graph
