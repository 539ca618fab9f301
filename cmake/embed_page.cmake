# cmake -D FOLDER=web/dist -D OUTPUT=x.cc -P embed_page.cmake
# Writes the built page into a C++ source as raw strings (see src/dashboard/page.h).
file(READ ${FOLDER}/index.html html)
file(READ ${FOLDER}/page.js script)
file(READ ${FOLDER}/page.css style)
file(READ ${FOLDER}/pool.html pool_html)
file(READ ${FOLDER}/pool.js pool_script)
file(READ ${FOLDER}/pool.css pool_style)
file(WRITE ${OUTPUT} "// Written by cmake/embed_page.cmake from web/.
#include \"dashboard/page.h\"

#include <array>

namespace tessera::dashboard {
namespace {

constexpr std::array kFiles = {
    PageFile{\"/\", \"text/html; charset=utf-8\", R\"PAGE(")
file(APPEND ${OUTPUT} "${html}")
file(APPEND ${OUTPUT} ")PAGE\"},
    PageFile{\"/page.js\", \"text/javascript; charset=utf-8\", R\"PAGE(")
file(APPEND ${OUTPUT} "${script}")
file(APPEND ${OUTPUT} ")PAGE\"},
    PageFile{\"/page.css\", \"text/css; charset=utf-8\", R\"PAGE(")
file(APPEND ${OUTPUT} "${style}")
file(APPEND ${OUTPUT} ")PAGE\"},
    PageFile{\"/pool\", \"text/html; charset=utf-8\", R\"PAGE(")
file(APPEND ${OUTPUT} "${pool_html}")
file(APPEND ${OUTPUT} ")PAGE\"},
    PageFile{\"/pool.js\", \"text/javascript; charset=utf-8\", R\"PAGE(")
file(APPEND ${OUTPUT} "${pool_script}")
file(APPEND ${OUTPUT} ")PAGE\"},
    PageFile{\"/pool.css\", \"text/css; charset=utf-8\", R\"PAGE(")
file(APPEND ${OUTPUT} "${pool_style}")
file(APPEND ${OUTPUT} ")PAGE\"},
};

}  // namespace

std::span<const PageFile> page_files() { return kFiles; }

}  // namespace tessera::dashboard
")
