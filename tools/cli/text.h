#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/support/strong_int.h"

namespace partita {

// "12.3 ms", "45.1 MB".
std::string TimeText(Nanos time);
std::string BytesText(Bytes bytes);

// Characters of a line of text for people on a file, stdout: 80, and on a terminal COLUMNS or its own width,
// from 40 to 200.
size_t OutputWidth(int file = 1);

// Text in lines of at most `width` characters, broken at spaces, all after the first indented by so
// many; ends in a newline. A number stays with its unit; a word that is longer has a line of its own.
std::string WrappedText(absl::string_view text, size_t width, size_t indent);

// Every line of the text as WrappedText, but for those to be copied: commands and paths, after
// "next:", "or:", "Try:", "written:" or "kept:".
std::string WrappedLines(absl::string_view text, size_t width);
// Text for people on a file, stdout: on a terminal in lines that fit it, otherwise as it is.
std::string TextFor(absl::string_view text, int file = 1);

// Rows of cells as aligned columns; the first row is the heading, whose cells may have several lines.
// Columns from `first_number` on are aligned to the right. What is wider than `width` wraps: where
// all columns are text, the last one's cells; otherwise cells of the first column stand on a line of
// their own where they are long, and the columns that do not fit follow as a table of their own,
// with the first column again.
std::string TableText(const std::vector<std::vector<std::string>>& rows, size_t first_number,
                      size_t width = OutputWidth());

// The unit in which all numbers of bytes of a table are shown, by the largest of them.
struct ByteUnit {
  const char* name = "B";
  double bytes = 1;

  // "45.1", without the unit; "<0.1" of what is less.
  std::string In(Bytes number) const;
};
ByteUnit UnitFor(Bytes largest);

// The text as a word of a POSIX shell: as it is where that does, or within single quotes.
std::string ShellWord(absl::string_view text);
// The same of a path: one that begins with '-' gets "./" before it, so that it is no flag.
std::string ShellPath(const std::string& path);

}  // namespace partita
