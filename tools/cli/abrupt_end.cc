#include "tools/cli/abrupt_end.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "absl/strings/string_view.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/exceptions.h"
#include "tools/cli/verb.h"
#include "tools/workflow/launching.h"

namespace partita {
namespace {

std::atomic<bool> g_in_order{false}, g_json{false}, g_streams{false}, g_ending{false};

constexpr char kNoMemory[] = "out of memory";

// A line on the way out of a program that has no memory left: nothing here allocates.
class LastLine {
 public:
  LastLine& operator<<(absl::string_view text) {
    for (char c : text) Put(c);
    return *this;
  }
  LastLine& operator<<(int number) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%d", number);
    return *this << absl::string_view(digits);
  }
  // As it stands between the quotes of a JSON string.
  LastLine& Escaped(absl::string_view text) {
    for (char c : text) {
      if (c == '"' || c == '\\') Put('\\');
      Put(static_cast<unsigned char>(c) < ' ' ? ' ' : c);
    }
    return *this;
  }
  void WriteTo(int file) const {
    for (size_t done = 0; done < size_;) {
      const ssize_t put = write(file, text_ + done, size_ - done);
      if (put <= 0) return;
      done += static_cast<size_t>(put);
    }
  }

 private:
  void Put(char c) {
    if (size_ < sizeof text_) text_[size_++] = c;
  }
  char text_[1024];
  size_t size_ = 0;
};

[[noreturn]] void Say(int code, absl::string_view what, absl::string_view doing,
                      absl::string_view advice) {
  const absl::string_view during = doing.empty() ? "" : " while ";
  LastLine line;
  (line << "partita: " << what << during << doing << advice << "\n").WriteTo(STDERR_FILENO);
  if (g_json) {
    LastLine json;
    json << "{" << (g_streams ? "\"event\":\"error\"," : "")
         << "\"schema_version\": " << kSchemaVersion << ", \"error\": {\"exit_code\": " << code
         << ", \"message\": \"";
    json.Escaped(what).Escaped(during).Escaped(doing).Escaped(advice) << "\"}}\n";
    json.WriteTo(STDOUT_FILENO);
  }
  std::_Exit(g_launched ? CodeOfRank(code) : code);
}

[[noreturn]] void End(int code, absl::string_view what, absl::string_view doing,
                      absl::string_view advice) {
  if (g_ending.exchange(true)) {
    for (;;) pause();
  }
  Say(code, what, doing, advice);
}

[[noreturn]] void EndByRefusedMemory() {
  End(CodeOf(ErrorCategory::kMemory), kNoMemory, Doing::Now(), kMoreMemory);
}

void EndByLibrary() {
  if (g_in_order.load()) return;
  End(CodeOf(ErrorCategory::kSystem), "a library that was refused memory or a thread ended the run",
      Doing::Now(), "");
}

[[noreturn]] void EndByException() {
  if (std::current_exception() == nullptr) std::abort();
  absl::Status status(absl::StatusCode::kResourceExhausted, "");
  try {
    std::rethrow_exception(std::current_exception());
  } catch (...) {
    status = StatusOfException();
  }
  End(ExitCodeOf(status), status.message().empty() ? kNoMemory : status.message(), "", "");
}

}  // namespace

std::string TextOf(const absl::Status& status) {
  return std::string(status.message().empty() ? kNoMemory : status.message());
}

void WatchAbruptEnds() {
  std::set_new_handler(EndByRefusedMemory);
  std::set_terminate(EndByException);
  std::atexit(EndByLibrary);
}

void EndInterrupted(const char* doing) {
  // A signal may come to the thread that has begun to end the program.
  if (g_ending.exchange(true)) std::_Exit(CodeOf(ErrorCategory::kInterrupted));
  Say(CodeOf(ErrorCategory::kInterrupted), "interrupted", doing, "");
}

void SayAbruptEndsInJson(bool json, bool streams) {
  g_json = json;
  g_streams = streams;
}

int EndInOrder(int code) {
  g_in_order = true;
  return code;
}

}  // namespace partita
