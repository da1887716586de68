#include "graph/support/check.h"

#include <cstdio>
#include <cstdlib>

namespace partita::internal {

void CheckFailed(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace partita::internal
