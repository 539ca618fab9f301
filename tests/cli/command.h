// Drives the `tessera` program as a user does: arguments in, exit status and both outputs back.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/testing/model_builder.h"

namespace tessera::cli {

struct CommandResult {
  int status = -1;  // exit status; 128 + signal where a signal ended it
  std::string out, err;

  // Standard output as JSON; discarded (is_discarded()) where it is none.
  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, false); }
};

// Runs the program of this build in the test's folder.
// `environment` ("NAME=value") goes before this process's own.
CommandResult tessera(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment = {});

// A line of the shell in the test's folder, in which $TESSERA is the program.
CommandResult shell(const std::string& line);

// The program copied into the test's folder, away from its build, and run there.
CommandResult tessera_alone(const std::vector<std::string>& arguments);

// The next line of a program in the background, without its end; empty at the end of its output. Waits.
std::string read_line(std::FILE* from);

// The verbs that `tessera --help` lists, in its order.
std::vector<std::string> verbs();

// A folder of this process's own, made at the first call and removed at exit.
const std::string& work_folder();
std::string read_text(const std::string& path);  // fails the test where the file is absent
void write_text(const std::string& path, const std::string& text);
// Changes into work_folder() and writes the models below there, once.
void prepare();

// small.onnx   x [1, 3, 8, 8] -> Conv "conv" (4 filters) -> Relu -> MaxPool "pool" -> y [1,4,4,4]
// open.onnx    x [batch, 3, height, width] -> Conv -> Relu -> y
// relu.onnx    x [2, 8] -> Relu -> y
// host.onnx    x [1, 3, 8, 8] -> Conv -> ArgMax "best" -> y: a step that the host runs
// strange.onnx an operator that no device runs
// integers.onnx x [1, 3] of u8 -> MatMulInteger "m" (w [3, 2] of i8) -> y
model::testing::ModelBuilder small_model(bool open);

}  // namespace tessera::cli
