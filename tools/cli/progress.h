#pragma once

#include <string>

#include "tools/cli/verb.h"

// Output of a verb while it works, beside its answer.

namespace partita {

// How much of that is said, and in which form; set once, before a verb runs.
struct OutputStyle {
  bool quiet = false;       // no progress, notes and hints
  bool json = false;        // answers and errors in JSON
  bool json_lines = false;  // a stream of events on stdout, one JSON object a line; implies json
};
void SetOutputStyle(const OutputStyle& style);
const OutputStyle& Style();

// How far some work is: its time left is told.
struct WorkDone {
  const char* of = "";  // "search"; the name of the work in events
  double done = 0, wanted = 0;
  double limit_seconds = 0;  // the most that it takes; 0: any time
};
// Progress for people, on stderr, in the place of the line before, with the time left; nothing where
// stderr is no terminal. The event "progress", a few times a second at most. Ends the verb where
// nobody reads stderr any more.
void ShowProgress(const std::string& line, const WorkDone& work = {});
// Clears the line.
void EndProgress();

// A line on stderr that stays, without its newline, in place of progress; on a terminal in lines that
// fit it.
void PrintToLog(const std::string& line);
// The same of news of a run and notes: nothing with --quiet.
void Say(const std::string& line);
// "warning: ...", of what should not be overlooked: also with --quiet.
void Warn(const std::string& warning);

// A line "note: ..." of the answer for people; none with --quiet.
void AppendNote(const std::string& note, Answer& answer);

// Whether --json_lines asks for events.
bool Streams();
// Names the verb that the first event, "begin", tells; it comes before any other one, so that ranks
// which have nothing to say print none.
void BeginEvents(const std::string& verb);
// One of them: {"event": event, fields...}. May be called by any thread.
void Emit(const std::string& event, const Json& fields);

}  // namespace partita
