// Text from files and peers for a terminal. A name may hold an escape sequence that moves the
// cursor or sets the clipboard, or a mark that turns the text around: people see it written out,
// and the terminal does not obey it. All functions may be called from any thread.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// What becomes of the line breaks of a text.
enum class LineBreaks {
  kShown,  // as \n: of a name in a line or in a cell of a table
  kKept,   // of a whole text
  // Kept where two spaces follow, as in messages of several lines; as \n where none do, because a
  // name holds them.
  kIndented,
};

// Control characters and bytes that are not UTF-8 as \x1b (a tab as \t), C1 controls, direction
// marks and separators of lines as \u{202e}, everything else as it is. Applying it again changes
// nothing.
std::string visible_text(std::string_view text, LineBreaks breaks = LineBreaks::kShown);

// The same for the text of a JSON document, which stays one with equal values: what its strings
// hold is written as \u202e, bytes that are not UTF-8 become U+FFFD.
std::string visible_json(std::string_view json, LineBreaks breaks = LineBreaks::kKept);

}  // namespace tessera
