#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace partita {

// A number that the kernel reports in a file of /proc or /sys: the one after the word `key`, or the
// first if that is empty; 0 if there is none.
int64_t NumberIn(const char* path, absl::string_view key = {});

}  // namespace partita
