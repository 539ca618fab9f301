#include "zoo/zoo.h"

#include <array>

#include "zoo/families.h"

namespace tessera::zoo {
namespace {

constexpr std::array kNetworks = {
    ZooNetwork{"mobilenet_v1", "MobileNetV1 1.0, 224 x 224, 1,000 classes", build_mobilenet_v1},
    ZooNetwork{"resnet18", "ResNet-18, 224 x 224, 1,000 classes", build_resnet18},
    ZooNetwork{"resnet50", "ResNet-50 v1.5 (stride in the 3 x 3), 224 x 224, 1,000 classes",
               build_resnet50},
    ZooNetwork{"vgg16", "VGG-16 (configuration D), 224 x 224, 1,000 classes", build_vgg16},
    ZooNetwork{"googlenet", "GoogLeNet, 224 x 224, without the auxiliary classifiers",
               build_googlenet},
    ZooNetwork{"inception_v3", "InceptionV3, 299 x 299, without the auxiliary classifier",
               build_inception_v3},
    ZooNetwork{"yolov3_tiny", "YOLOv3-tiny, 416 x 416, 80 classes, raw heads", build_yolov3_tiny},
    ZooNetwork{"yolov3", "YOLOv3 on Darknet-53, 416 x 416, 80 classes, raw heads", build_yolov3},
    ZooNetwork{"ssd_mobilenet", "SSD on MobileNetV1, 300 x 300, 90 classes, raw boxes and scores",
               build_ssd_mobilenet},
    ZooNetwork{"ssd_vgg", "SSD300 on VGG-16, 20 classes, raw boxes and scores", build_ssd_vgg},
    ZooNetwork{"vit_tiny", "ViT (DeiT-Ti/16), 224 x 224, 1,000 classes", build_vit_tiny},
    ZooNetwork{"bert_base", "BERT-base encoder, 128 embedded tokens, with pooler", build_bert_base},
};

}  // namespace

std::span<const ZooNetwork> networks() { return kNetworks; }

Result<ZooNetwork> find_network(const std::string& name) {
  std::string names;
  for (const ZooNetwork& network : kNetworks) {
    if (name == network.name) return network;
    names += (names.empty() ? "" : ", ") + std::string(network.name);
  }
  return Error{ErrorCode::kInvalidArgument, "there is no network '" + name + "'; allowed " + names};
}

Summary summarise(const ZooNetwork& network) {
  NetworkBuilder builder(network.name, 0, false);
  network.build(builder);
  return builder.summary();
}

Result<Summary> write_network(const ZooNetwork& network, std::uint64_t seed,
                              const std::string& path) {
  NetworkBuilder builder(network.name, seed, true);
  network.build(builder);
  TESSERA_RETURN_IF_ERROR(builder.write(path));
  return builder.summary();
}

std::vector<std::vector<std::string>> rounded_values(const ZooNetwork& network) {
  NetworkBuilder builder(network.name, 0, false);
  network.build(builder);
  return builder.value_groups();
}

Result<Summary> write_network_in_8_bits(const ZooNetwork& network, std::uint64_t seed,
                                        const ValueRanges& ranges, const std::string& path) {
  NetworkBuilder builder(network.name, seed, true, &ranges);
  network.build(builder);
  TESSERA_RETURN_IF_ERROR(builder.write(path));
  return builder.summary();
}

}  // namespace tessera::zoo
