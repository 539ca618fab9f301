// What every text that the program writes has to be, whatever names and numbers are in it.
#pragma once

#include <string_view>

namespace tessera::fuzz {

// Each ends the process where the text is not what it should be.
void check_utf8(std::string_view text);
void check_json(std::string_view text);        // one document, UTF-8
void check_json_lines(std::string_view text);  // a document a line, each line ended
void check_prometheus(std::string_view text);  // text format 0.0.4
// A page of which no name opened an element: it has as many "<" as with harmless names.
void check_page(std::string_view text, std::string_view harmless);

}  // namespace tessera::fuzz
