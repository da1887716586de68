#pragma once

#include <sstream>
#include <string>

// Invariants. A failed CHECK is a bug in this program: it prints the place and aborts. Nothing that
// comes from a file, a flag or a peer may reach one; such errors are absl::Status.

namespace partita::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const std::string& message);

struct CheckMessage {
  CheckMessage(const char* file, int line, const char* condition) : file(file), line(line) {
    stream << condition << ' ';
  }
  [[noreturn]] ~CheckMessage() { CheckFailed(file, line, stream.str()); }
  const char* file;
  int line;
  std::ostringstream stream;
};

}  // namespace partita::internal

#ifndef CHECK
#define CHECK(condition) \
  while (!(condition)) ::partita::internal::CheckMessage(__FILE__, __LINE__, #condition).stream
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))
#endif
