#pragma once

#include <string>

#include "absl/status/status.h"

namespace partita {

// The text of an error, also of one for whose text there was no memory.
std::string TextOf(const absl::Status& status);

// Ends of the program that main() does not see, which from here on print what was being done, as
// JSON too where that was asked for, and end it with the documented code:
//   an allocation that is refused. It ends the program where it happens, as Abseil's hash tables
//     would not survive its exception: the destructors that it runs free what was never made.
//   an exception that leaves a destructor or another function that may throw nothing.
//   a library that calls exit() where it is refused memory or a thread (OpenMP's). Its own message
//     stands above.
// Files that were being written stay as they were; temporary files are removed by the next run.
// Call once.
void WatchAbruptEnds();
// Whether errors are printed as JSON, and as the last of a stream of events.
void SayAbruptEndsInJson(bool json, bool streams);
// Ends the program with 130 and that it was interrupted while `doing`, as JSON too. Of use in
// signal handlers.
[[noreturn]] void EndInterrupted(const char* doing);
// main() returns from here on, with the code that it is given.
int EndInOrder(int code);

// The version of all that is answered in JSON.
constexpr int kSchemaVersion = 1;

}  // namespace partita
