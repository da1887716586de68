#pragma once

#include <string>

// The process's dealings with its surroundings: signals, standard input and output.

namespace partita {

// Sets up the process; to be called first in main, by the only thread.
//   - Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 (of launchers) set g_interrupted, but for the first three
//     where they were ignored when the process began, as by nohup or in the background of a script.
//     A second one, half a second later or more, ends the process at once; not SIGHUP, of which a
//     closing terminal sends two.
//   - Pipes without a reader and limits on files are errors of the writing call.
//   - Where a standard stream is closed, no file that is opened later takes its place.
void SetUpProcess();

// While one lives, what would set g_interrupted ends the process at once, with 130: it waits for
// what may never come, and has nothing to lose. One at a time.
class EndsWhenInterrupted {
 public:
  // `doing`: what the message says is interrupted, "waiting for other ranks".
  explicit EndsWhenInterrupted(const char* doing);
  ~EndsWhenInterrupted();
  EndsWhenInterrupted(const EndsWhenInterrupted&) = delete;
  EndsWhenInterrupted& operator=(const EndsWhenInterrupted&) = delete;
};

// Sets g_interrupted if stderr has no reader any more.
void InterruptIfUnheard();

// The program as the user called it, "partita" or "build/tools/partita", for commands that are
// suggested.
extern std::string g_program;

// Writes to stdout. What cannot be written shows in CodeOfOutput.
void Print(const std::string& text);

// Whether a file of that name is one of the process's streams, whatever that is.
bool IsStream(const std::string& path);
// Whether a file of that name is stdout: the program's answer is then no part of it.
bool IsStdout(const std::string& path);

// Final exit code, for the end of main: 5 in place of 0, and a message, if something could not be
// written to stdout. A pipe whose reader has gone (`| head`) ends the process without a word, by
// SIGPIPE as every other program, unless that was ignored when the process began.
int CodeOfOutput(int code);

}  // namespace partita
