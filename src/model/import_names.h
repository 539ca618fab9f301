// Names for nodes: every node of a model, those inside of subgraphs included, gets one that no
// other has, so that a name in a message or a report says which node is meant.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace tessera::model {

class NodeNames {
 public:
  // Records the names in the file, so that no generated name equals one.
  explicit NodeNames(const onnx::GraphProto& graph);

  // The file's name for the first node that has it; "Conv_3" for the unnamed node 3 of its graph;
  // with "_2", "_3", ... behind it where that is taken.
  std::string name(const onnx::NodeProto& node, std::size_t index);

 private:
  void take_down(const onnx::GraphProto& graph);

  std::unordered_set<std::string> in_file_;
  std::unordered_set<std::string> given_;
  std::unordered_map<std::string, int> copies_;  // a name that was taken -> the last number tried
};

}  // namespace tessera::model
