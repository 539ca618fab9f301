# cmake -D FOLDER=web/dist -D OUTPUT=x.cc -P embed_page.cmake
# Writes the built pages into a C++ source as raw strings (see src/dashboard/page.h).

# add_page(PATH FILE TYPE): FILE of the folder is answered for PATH.
function(add_page path file type)
  file(READ ${FOLDER}/${file} text)
  file(APPEND ${OUTPUT} "    PageFile{\"${path}\", \"${type}; charset=utf-8\", R\"PAGE(${text})PAGE\"},\n")
endfunction()

file(WRITE ${OUTPUT} "// Written by cmake/embed_page.cmake from web/.
#include \"dashboard/page.h\"

#include <array>

namespace tessera::dashboard {
namespace {

constexpr std::array kFiles = {
")
add_page(/ index.html text/html)
add_page(/page.js page.js text/javascript)
add_page(/page.css page.css text/css)
add_page(/pool pool.html text/html)
add_page(/pool.js pool.js text/javascript)
add_page(/pool.css pool.css text/css)
file(APPEND ${OUTPUT} "};

}  // namespace

std::span<const PageFile> page_files() { return kFiles; }

}  // namespace tessera::dashboard
")
