// Transformer encoders: ViT in the sizes of DeiT-Ti (Touvron et al., Training data-efficient image
// transformers, 2020) and BERT-base (Devlin et al., 2018). BERT's inputs are tokens that have been
// embedded already and the additive mask of attention.
#include <cmath>
#include <optional>

#include "zoo/families.h"

namespace tessera::zoo {
namespace {

struct Encoder {
  std::int64_t width, heads, layers;
  std::int64_t head_width() const { return width / heads; }
};

// [1, tokens, width] to [1, heads, tokens, width / heads].
Value split_heads(NetworkBuilder& b, const Value& x, const Encoder& e) {
  return b.transpose(b.reshape(x, {1, x.dims[1], e.heads, e.head_width()}), {0, 2, 1, 3});
}

Value attention(NetworkBuilder& b, const Value& x, const Encoder& e,
                const std::optional<Value>& mask) {
  const Value q = split_heads(b, b.linear(x, e.width), e);
  const Value k = split_heads(b, b.linear(x, e.width), e);
  const Value v = split_heads(b, b.linear(x, e.width), e);
  const double factor = 1 / std::sqrt(static_cast<double>(e.head_width()));
  Value scores = b.scale(b.matmul(q, b.transpose(k, {0, 1, 3, 2})), factor);
  if (mask) scores = b.add(scores, *mask);
  const Value mixed = b.transpose(b.matmul(b.softmax(scores), v), {0, 2, 1, 3});
  return b.linear(b.reshape(mixed, x.dims), e.width);
}

Value feed_forward(NetworkBuilder& b, const Value& x) {
  const std::int64_t width = x.dims[2];
  return b.linear(b.gelu(b.linear(x, 4 * width)), width);
}

}  // namespace

void build_vit_tiny(NetworkBuilder& b) {
  constexpr Encoder kEncoder = {.width = 192, .heads = 3, .layers = 12};
  constexpr std::int64_t kPatch = 16;
  const Value patches =
      b.conv(b.input("image", {1, 3, 224, 224}), {.output_channels = kEncoder.width,
                                                  .kernel_h = kPatch,
                                                  .kernel_w = kPatch,
                                                  .stride = kPatch,
                                                  .padding = Padding::kValid,
                                                  .activation = Activation::kNone});
  const std::int64_t count = patches.dims[2] * patches.dims[3];
  Value x = b.transpose(b.reshape(patches, {1, kEncoder.width, count}), {0, 2, 1});
  x = b.add_parameter(b.prepend_token(x), {1, count + 1, kEncoder.width});
  for (std::int64_t i = 0; i < kEncoder.layers; ++i) {
    x = b.add(x, attention(b, b.layer_normalise(x), kEncoder, {}));
    x = b.add(x, feed_forward(b, b.layer_normalise(x)));
  }
  const Value token = b.first_token(b.layer_normalise(x));
  b.output(b.softmax(b.dense(token, 1000, Activation::kNone)), "probabilities");
}

void build_bert_base(NetworkBuilder& b) {
  constexpr Encoder kEncoder = {.width = 768, .heads = 12, .layers = 12};
  constexpr std::int64_t kTokens = 128;
  Value x = b.layer_normalise(b.input("embedded", {1, kTokens, kEncoder.width}));
  const Value mask = b.input("mask", {1, 1, 1, kTokens});
  for (std::int64_t i = 0; i < kEncoder.layers; ++i) {
    x = b.layer_normalise(b.add(x, attention(b, x, kEncoder, mask)));
    x = b.layer_normalise(b.add(x, feed_forward(b, x)));
  }
  b.output(x, "hidden");
  b.output(b.tanh(b.dense(b.first_token(x), kEncoder.width, Activation::kNone)), "pooled");
}

}  // namespace tessera::zoo
