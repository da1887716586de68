#include "tests/gpu/execute.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace partita {

absl::StatusOr<int> Execute(const std::vector<std::string>& words,
                            const std::function<void(const std::string&)>& line) {
  const std::string command = absl::StrCat("'", absl::StrJoin(words, "' '"), "'");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return absl::InternalError(absl::StrCat("cannot start ", command));
  char* text = nullptr;
  size_t room = 0;
  for (ssize_t size = 0; (size = getline(&text, &room, pipe)) >= 0;) {
    line(std::string(text, static_cast<size_t>(size)));
  }
  std::free(text);
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace partita
