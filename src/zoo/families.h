// One function per network, one file per family. zoo.cc has the table.
#pragma once

#include "zoo/network_builder.h"

namespace tessera::zoo {

void build_mobilenet_v1(NetworkBuilder& b);
void build_ssd_mobilenet(NetworkBuilder& b);
void build_resnet18(NetworkBuilder& b);
void build_resnet50(NetworkBuilder& b);
void build_vgg16(NetworkBuilder& b);
void build_ssd_vgg(NetworkBuilder& b);
void build_googlenet(NetworkBuilder& b);
void build_inception_v3(NetworkBuilder& b);
void build_yolov3_tiny(NetworkBuilder& b);
void build_yolov3(NetworkBuilder& b);
void build_vit_tiny(NetworkBuilder& b);
void build_bert_base(NetworkBuilder& b);

}  // namespace tessera::zoo
