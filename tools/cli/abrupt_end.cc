#include "tools/cli/abrupt_end.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "absl/strings/string_view.h"
#include "graph/support/doing.h"
#include "graph/support/exceptions.h"
#include "tools/cli/exit_code.h"
#include "tools/workflow/launching.h"

namespace partita {
namespace {

std::atomic<bool> g_in_order{false};

constexpr char kNoMemory[] = "out of memory";

// As the program would have ended by itself, without what it may no longer rely on.
[[noreturn]] void End(int code) {
  std::fflush(stderr);
  std::_Exit(g_launched ? CodeOfRank(code) : code);
}

void EndByLibrary() {
  if (g_in_order.load()) return;
  const Doing::Text doing = Doing::Now();
  const bool known = !absl::string_view(doing).empty();
  std::fprintf(stderr, "partita: a library that was refused memory or a thread ended the run%s%s\n",
               known ? " while " : "", doing.chars);
  End(5);
}

[[noreturn]] void EndByException() {
  if (std::current_exception() == nullptr) std::abort();
  absl::Status status(absl::StatusCode::kResourceExhausted, "");
  try {
    std::rethrow_exception(std::current_exception());
  } catch (...) {
    status = StatusOfException();
  }
  const absl::string_view text = status.message().empty() ? kNoMemory : status.message();
  std::fprintf(stderr, "partita: %.*s\n", static_cast<int>(text.size()), text.data());
  End(ExitCodeOf(status));
}

}  // namespace

std::string TextOf(const absl::Status& status) {
  return std::string(status.message().empty() ? kNoMemory : status.message());
}

void WatchAbruptEnds() {
  std::set_terminate(EndByException);
  std::atexit(EndByLibrary);
}

int EndInOrder(int code) {
  g_in_order = true;
  return code;
}

}  // namespace partita
