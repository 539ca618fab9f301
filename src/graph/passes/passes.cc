#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

constexpr Pass kPasses[] = {
    {"fold_constant_moves", fold_constant_moves, false},
    {"drop_neutral", drop_neutral, false},
    {"fold_channel_constants", fold_channel_constants, false},
    {"fuse_patterns", fuse_patterns, false},
    // What is left of quotients: patterns have some of their own.
    {"fold_input_factors", fold_input_factors, false},
    {"widen_normalisation", widen_normalisation, false},
    {"widen_angles", widen_angles, false},
    {"widen_logits", widen_logits, false},
    {"widen_magnitudes", widen_magnitudes, false},
    {"widen_scales", widen_scales, false},
    {"fold_padding", fold_padding, false},
    {"hoist_activations", hoist_activations, false},
    {"clean_moves", clean_moves, false},
    {"fuse_activations", fuse_activations, false},
    {"fuse_quantisation", fuse_quantisation, false},
    // Moves between which only a step of quantisation stood.
    {"clean_moves", clean_moves, false},
    {"fold_padding", fold_padding, false},
    {"equalise_channels", equalise_channels, false},
    {"number_formats", number_formats, true},
    {"load_constant_batches", load_constant_batches, true},
    {"drop_dead", drop_dead, true},
    {"fold_space_to_depth", fold_space_to_depth, true},
    {"split_phases", split_phases, true},
    {"unshuffle_channels", unshuffle_channels, true},
    {"join_padded", join_padded, true},
    {"group_pixels", group_pixels, true},
    {"follow_pixels", follow_pixels, true},
    {"repeat_pixels", repeat_pixels, true},
    {"nest_concatenations", nest_concatenations, true},
    {"interleave_parts", interleave_parts, true},
    {"spread_products", spread_products, true},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

}  // namespace tessera::graph
