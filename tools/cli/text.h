#pragma once

#include <string>
#include <vector>

#include "graph/support/strong_int.h"

namespace partita {

// "12.3 ms", "45.1 MB".
std::string TimeText(Nanos time);
std::string BytesText(Bytes bytes);

// Rows of cells as aligned columns; the first row is the heading. Columns from `first_number` on
// are aligned to the right.
std::string TableText(const std::vector<std::vector<std::string>>& rows, size_t first_number);

}  // namespace partita
