# cmake -D INPUT=page.html -D OUTPUT=x.cc -D HEADER=dir/x.h -D NAME=kPage -P embed_text.cmake
# Writes a text file into a C++ source as one raw string: const std::string_view NAME.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "// Written by cmake/embed_text.cmake.
#include \"${HEADER}\"

namespace tessera {

const std::string_view ${NAME} = R\"TEXT(")
file(APPEND ${OUTPUT} "${text}")
file(APPEND ${OUTPUT} ")TEXT\";

}  // namespace tessera
")
