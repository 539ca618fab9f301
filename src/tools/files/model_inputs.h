// What the command line says of a model's inputs before it is compiled: the shapes of the files that it is fed,
// where the model leaves dimensions open, and the values that are known at compile time.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "tessera/network.h"

namespace tessera::tools {

// For LoadOptions::open_shape, of the `--input` texts: NAME=FILE, or FILE for the only input. A tensor has the shape of
// its file. A picture has its own size, or where one of height and width is fixed, as much of the other. Of a file that
// cannot be read nothing is said: reading it for the run has the error.
std::function<std::optional<Shape>(const DeclaredShape&)> shapes_of_files(
    std::vector<std::string> inputs);

// Of such texts what may be their names: all that stands before a '='.
std::set<std::string> names_of(const std::vector<std::string>& inputs);

// Of `inputs` those whose values decide what is computed (a sample rate that an If asks for) go over to `constants`, both as
// texts of the command line: tensor files of at most 64 integers or booleans, without which the model cannot be compiled.
// Returns their names. Errors are left to the compilation.
std::vector<std::string> take_deciding(const std::string& model,
                                       const std::function<Result<LoadOptions>()>& options,
                                       std::vector<std::string>& inputs,
                                       std::vector<std::string>& constants);

// "NAME=VALUE" each: a number, several with commas between, true or false, or a file (.npy, .pb). Elements and shape are
// what the model of the file `model` declares; in a shape with one open dimension that is as long as the values need.
// The error names the text, and what is allowed.
Result<std::map<std::string, Tensor>> parse_constants(const std::string& model,
                                                      const std::vector<std::string>& texts);
// One of them, for an input that is declared so.
Result<Tensor> parse_constant(const std::string& value, const DeclaredShape& input);

}  // namespace tessera::tools
