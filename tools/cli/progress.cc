#include "tools/cli/progress.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "tools/cli/abrupt_end.h"
#include "tools/cli/process.h"
#include "tools/cli/text.h"
#include "tools/cli/time_left.h"

namespace partita {
namespace {

OutputStyle g_style;
std::string g_verb;   // of the event "begin", until that is told
std::mutex g_events;  // one line is written at a time

constexpr double kSecondsBetweenEvents = 0.25;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool IsTerminal() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  return terminal;
}

// The work that progress is shown of.
struct Shown {
  std::string of;
  TimeLeft left;
  double last_event = -1;
};

}  // namespace

void SetOutputStyle(const OutputStyle& style) { g_style = style; }
const OutputStyle& Style() { return g_style; }

void ShowProgress(const std::string& line, const WorkDone& work) {
  InterruptIfUnheard();
  if ((!IsTerminal() || g_style.quiet) && !Streams()) return;
  static Shown shown;
  const double now = Now();
  if (shown.of != work.of) shown = {.of = work.of};
  std::optional<double> left;
  if (work.wanted > 0) {
    shown.left.Note(work.done, work.wanted, now, work.limit_seconds);
    left = shown.left.Seconds();
  }
  if (IsTerminal() && !g_style.quiet) {
    const std::string tail = left.has_value() ? absl::StrCat(", ", TimeLeftText(*left)) : "";
    const size_t width = OutputWidth(STDERR_FILENO) - 1;
    const size_t room = width > tail.size() ? width - tail.size() : 0;
    std::cerr << "\r\033[K" << line.substr(0, room) << tail << std::flush;
  }
  const bool is_last = work.wanted > 0 && work.done >= work.wanted;
  if (!Streams() || (now < shown.last_event + kSecondsBetweenEvents && !is_last)) return;
  shown.last_event = now;
  Emit("progress", {{"of", work.of},
                    {"done", work.wanted > 0 ? Json(work.done) : Json(nullptr)},
                    {"wanted", work.wanted > 0 ? Json(work.wanted) : Json(nullptr)},
                    {"seconds_left", left.has_value() ? Json(*left) : Json(nullptr)},
                    {"text", line}});
}

void EndProgress() {
  if (IsTerminal() && !g_style.quiet) std::cerr << "\r\033[K" << std::flush;
}

void PrintToLog(const std::string& line) {
  EndProgress();
  std::cerr << TextFor(absl::StrCat(line, "\n"), STDERR_FILENO);
}

void Say(const std::string& line) {
  if (!g_style.quiet) PrintToLog(line);
}

void Warn(const std::string& warning) { PrintToLog(absl::StrCat("warning: ", warning)); }

void AppendNote(const std::string& note, Answer& answer) {
  if (!g_style.quiet) absl::StrAppend(&answer.text, "note: ", note, "\n");
}

bool Streams() { return g_style.json_lines; }

void BeginEvents(const std::string& verb) { g_verb = verb; }

void Emit(const std::string& event, const Json& fields) {
  if (!Streams()) return;
  Json line = {{"event", event}};
  line.update(fields);
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  const std::lock_guard lock(g_events);
  if (!g_verb.empty()) {
    Print(text({{"event", "begin"}, {"schema_version", kSchemaVersion}, {"verb", g_verb}}));
    g_verb.clear();
  }
  Print(text(line));
}

}  // namespace partita
