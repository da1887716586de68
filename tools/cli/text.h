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
// many; ends in a newline. A word that is longer has a line of its own.
std::string WrappedText(absl::string_view text, size_t width, size_t indent);

// Rows of cells as aligned columns; the first row is the heading. Columns from `first_number` on
// are aligned to the right.
std::string TableText(const std::vector<std::vector<std::string>>& rows, size_t first_number);

}  // namespace partita
