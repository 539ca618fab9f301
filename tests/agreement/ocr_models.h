// Where the OCR models lie; fetched once into the user's cache.
#pragma once

#include <cstdio>
#include <string>

namespace tessera {

// The folder, or "" (with the script's own words on standard error) where it cannot be had.
inline std::string ocr_models_folder() {
  std::FILE* pipe = popen(TESSERA_FETCH_SCRIPT, "r");
  if (pipe == nullptr) return "";
  std::string folder;
  for (int c = std::fgetc(pipe); c != EOF && c != '\n'; c = std::fgetc(pipe)) {
    folder += static_cast<char>(c);
  }
  return pclose(pipe) == 0 ? folder : "";
}

}  // namespace tessera
