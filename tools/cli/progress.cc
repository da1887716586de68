#include <unistd.h>

#include <iostream>

#include "tools/cli/process.h"
#include "tools/cli/verb.h"

namespace partita {

void ShowProgress(const std::string& line) {
  InterruptIfUnheard();
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) std::cerr << "\r\033[K" << line.substr(0, 100) << std::flush;
}

void EndProgress() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) std::cerr << "\r\033[K" << std::flush;
}

}  // namespace partita
