// The files of the web pages (of a pipeline, and of a cluster's pool), built from web/ and put into the program by cmake/embed_page.cmake.
#pragma once

#include <span>
#include <string_view>

namespace tessera::dashboard {

struct PageFile {
  std::string_view path;  // "/", "/page.js", "/pool"
  std::string_view type;  // of its content
  std::string_view text;
};

// Empty where npm was absent when the program was built.
std::span<const PageFile> page_files();

}  // namespace tessera::dashboard
