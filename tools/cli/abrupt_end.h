#pragma once

#include <string>

#include "absl/status/status.h"

namespace partita {

// The text of an error, also of one for whose text there was no memory.
std::string TextOf(const absl::Status& status);

// Ends of the program that main() does not see: an exception that leaves a destructor or another
// function that may throw nothing, and libraries that call exit() where they are refused memory or
// a thread (OpenMP's). From here on they print what was being done and end with the documented
// code; a library's own message stands above it. Call once.
void WatchAbruptEnds();
// main() returns from here on, with the code that it is given.
int EndInOrder(int code);

}  // namespace partita
