// ocr FOLDER: the command line's part of reading a folder of pictures.
#pragma once

#include <string>

#include "folder.h"

namespace ocr {

struct FolderArguments {
  std::string folder, models;
  streaming::Arguments devices;
  std::string frame = "640x640";  // WIDTHxHEIGHT
  bool no_direction = false, plain = false, tune = false, json = false;
};

// Prints the lines of each picture as soon as they are known, and what it took. An error if a
// picture could not be read, after all others are.
tessera::Status run_folder(const FolderArguments& arguments);

}  // namespace ocr
