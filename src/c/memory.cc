// Memory, layers and pictures of the C interface.
#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

// 100 million pixels, as read_picture.
constexpr std::int64_t kPixelsMax = 100'000'000;

Status check_size(std::int64_t width, std::int64_t height) {
  if (width >= 1 && height >= 1 && width <= kPixelsMax / height) return {};
  return Error{ErrorCode::kInvalidArgument, "a picture of " + std::to_string(width) + "x" +
                                                std::to_string(height) +
                                                "; allowed 1x1 to 100 million pixels"};
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_memory_open(tessera_runtime* runtime, const char* device,
                                   tessera_memory** memory) {
  if (memory == nullptr) return is_null("memory");
  *memory = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  if (device == nullptr) return is_null("device");
  return guarded([&] { return hand_over(runtime->runtime.open_memory(device), memory); });
}
const char* tessera_memory_device(const tessera_memory* memory) {
  return memory == nullptr ? "" : memory->memory.device().c_str();
}
void tessera_memory_release(tessera_memory* memory) { delete memory; }

tessera_error* tessera_block_allocate(tessera_memory* memory, size_t bytes, tessera_block** block) {
  if (block == nullptr) return is_null("block");
  *block = nullptr;
  if (memory == nullptr) return is_null("memory");
  return guarded([&]() -> tessera_error* {
    if (bytes > static_cast<size_t>(INT64_MAX)) {
      return make_error(tessera::Error{tessera::ErrorCode::kDoesNotFit,
                                       "a block of " + std::to_string(bytes) + " bytes"});
    }
    return hand_over(memory->memory.allocate(static_cast<std::int64_t>(bytes)), block);
  });
}
void* tessera_block_data(const tessera_block* block) {
  return block == nullptr ? nullptr : block->block.bytes().data();
}
size_t tessera_block_bytes(const tessera_block* block) {
  return block == nullptr ? 0 : block->block.bytes().size();
}
tessera_error* tessera_block_wrote(tessera_block* block) {
  if (block == nullptr) return is_null("block");
  return guarded([&] { return make_error(block->block.wrote()); });
}
tessera_error* tessera_block_fetch(tessera_block* block) {
  if (block == nullptr) return is_null("block");
  return guarded([&] { return make_error(block->block.fetch()); });
}
void tessera_block_release(tessera_block* block) { delete block; }

tessera_error* tessera_layers_load(tessera_runtime* runtime, const tessera_network* network,
                                   const tessera_memory* memory, tessera_layers** layers) {
  if (layers == nullptr) return is_null("layers");
  *layers = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  if (network == nullptr) return is_null("network");
  if (memory == nullptr) return is_null("memory");
  return guarded([&] {
    return hand_over(runtime->runtime.load_layers(network->network, memory->memory), layers);
  });
}
size_t tessera_layers_count(const tessera_layers* layers) {
  return layers == nullptr ? 0 : layers->layers.list().size();
}
tessera_error* tessera_layers_layer(const tessera_layers* layers, size_t layer,
                                    tessera_layer* described) {
  if (layers == nullptr) return is_null("layers");
  if (described == nullptr) return is_null("described");
  return guarded([&] {
    const std::vector<tessera::Layer>& list = layers->layers.list();
    if (layer >= list.size()) {
      return make_error(tessera::Error{
          tessera::ErrorCode::kInvalidArgument,
          "layer " + std::to_string(layer) + " of a network of " + std::to_string(list.size())});
    }
    const tessera::Layer& found = list[layer];
    const tessera_layer full = {sizeof full,          found.name.c_str(),  found.inputs.size(),
                                found.outputs.size(), found.weight_offset, found.weight_bytes};
    return make_error(fill(full, described));
  });
}
tessera_tensor_description tessera_layers_input(const tessera_layers* layers, size_t layer,
                                                size_t index) {
  if (layer >= tessera_layers_count(layers)) return {};
  return description_of(layers->layers.list()[layer].inputs, index);
}
tessera_tensor_description tessera_layers_output(const tessera_layers* layers, size_t layer,
                                                 size_t index) {
  if (layer >= tessera_layers_count(layers)) return {};
  return description_of(layers->layers.list()[layer].outputs, index);
}
void tessera_layers_release(tessera_layers* layers) { delete layers; }

tessera_error* tessera_picture_read(const char* path, tessera_picture** picture) {
  if (picture == nullptr) return is_null("picture");
  *picture = nullptr;
  if (path == nullptr) return is_null("path");
  return guarded([&] { return hand_over(tessera::read_picture(path), picture); });
}

tessera_error* tessera_picture_create(int64_t width, int64_t height, const uint8_t* rgb,
                                      tessera_picture** picture) {
  if (picture == nullptr) return is_null("picture");
  *picture = nullptr;
  return guarded([&]() -> tessera_error* {
    const tessera::Status size = check_size(width, height);
    if (!size.ok()) return make_error(size);
    auto made = std::make_unique<tessera_picture>();
    made->picture = tessera::Picture::blank(width, height, 0);
    if (rgb != nullptr) std::memcpy(made->picture.rgb.data(), rgb, made->picture.rgb.size());
    *picture = made.release();
    return nullptr;
  });
}

tessera_error* tessera_picture_resize(const tessera_picture* picture, int64_t width, int64_t height,
                                      tessera_picture** resized) {
  if (resized == nullptr) return is_null("resized");
  *resized = nullptr;
  if (picture == nullptr) return is_null("picture");
  return guarded([&]() -> tessera_error* {
    const tessera::Status size = check_size(width, height);
    if (!size.ok()) return make_error(size);
    *resized = new tessera_picture{tessera::resize(picture->picture, width, height)};
    return nullptr;
  });
}

tessera_error* tessera_picture_write_png(const tessera_picture* picture, const char* path) {
  if (picture == nullptr) return is_null("picture");
  if (path == nullptr) return is_null("path");
  return guarded([&] { return make_error(tessera::write_png(path, picture->picture)); });
}
int64_t tessera_picture_width(const tessera_picture* picture) {
  return picture == nullptr ? 0 : picture->picture.width;
}
int64_t tessera_picture_height(const tessera_picture* picture) {
  return picture == nullptr ? 0 : picture->picture.height;
}
uint8_t* tessera_picture_rgb(tessera_picture* picture) {
  return picture == nullptr ? nullptr : picture->picture.rgb.data();
}

tessera_error* tessera_picture_fill(const tessera_picture* picture, const tessera_network* network,
                                    size_t input, const tessera_picture_input* how, void* data,
                                    size_t bytes) {
  if (picture == nullptr) return is_null("picture");
  if (network == nullptr) return is_null("network");
  if (data == nullptr) return is_null("data");
  return guarded([&]() -> tessera_error* {
    const auto& inputs = network->network.inputs();
    const auto wrong = [](const std::string& what) {
      return make_error(tessera::Error{tessera::ErrorCode::kInvalidArgument, what});
    };
    if (input >= inputs.size()) {
      return wrong("input " + std::to_string(input) + " of a network with " +
                   std::to_string(inputs.size()));
    }
    const auto wanted = picture_of(how);
    if (!wanted.ok()) return make_error(wanted.error());
    const auto tensor = tessera::picture_tensor(picture->picture, inputs[input], *wanted);
    if (!tensor.ok()) return make_error(tensor.error());
    if (tensor.value().bytes.size() != bytes) {
      return wrong("room for " + std::to_string(bytes) + " bytes; input '" + inputs[input].name +
                   "' has " + std::to_string(tensor.value().bytes.size()));
    }
    std::memcpy(data, tensor.value().bytes.data(), bytes);
    return nullptr;
  });
}
void tessera_picture_release(tessera_picture* picture) { delete picture; }

}  // extern "C"
