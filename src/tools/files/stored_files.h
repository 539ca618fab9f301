// A folder of models, and the shapes in which its cases feed them:
//
//   FOLDER/models/*.onnx, or FOLDER/*.onnx      the models
//   FOLDER/cases/CASES.tsv                      a line per tensor of a case, below a line of the columns' names:
//                                               model, case, "in" or "out", index, tensor, type, shape, and
//                                               may be a file below the folder, and "raw" for one as it is
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tessera/network.h"

namespace tessera::tools {

struct StoredFile {
  std::string path, name;               // the name is the file's without ".onnx"
  std::map<std::string, Shape> shapes;  // of inputs, from the model's first case; empty without one
  std::map<std::string, std::string> values =
      {};  // likewise their files, of those that are stored as they are (.npy)
};

// Puts the shapes of `cases`, the text of CASES.tsv, into the files that it names; `path` is for errors.
// kInvalidArgument: a line has no shape where one belongs; it names the line.
Status read_case_shapes(std::string_view cases, const std::string& path,
                        std::vector<StoredFile>& files);

// By name. kInvalidArgument: there is no model, or a line of CASES.tsv has no shape where one belongs;
// kUnavailable: a folder or the file cannot be read.
Result<std::vector<StoredFile>> stored_files(const std::string& folder);

// What Network::load takes for it: of the shapes those that the model leaves open.
Result<LoadOptions> load_options(const StoredFile& file, const std::string& arch);

}  // namespace tessera::tools
