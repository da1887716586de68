#include "tests/gpu/isolated_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

using Clock = std::chrono::steady_clock;

void WriteAll(int pipe, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(pipe, text.data() + written, text.size() - written);
    if (count < 0) _exit(1);
    written += static_cast<size_t>(count);
  }
}

absl::Status EndOf(int status) {
  if (WIFSIGNALED(status)) {
    return absl::InternalError(absl::StrCat("its process was ended by signal ", WTERMSIG(status),
                                            " (", strsignal(WTERMSIG(status)), ")"));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("its process ended with exit status ", WEXITSTATUS(status)));
}

// The last line that ends, and what follows, of what is written into the pipe before its end or the
// limit; false: the limit came first.
bool ReadAll(int pipe, Clock::time_point until, std::string& text) {
  std::array<char, 65536> piece;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{pipe, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1'000'000))) <= 0) continue;
    const ssize_t count = read(pipe, piece.data(), piece.size());
    if (count <= 0) return true;
    text.append(piece.data(), static_cast<size_t>(count));
    const size_t end = text.rfind('\n');
    if (end == std::string::npos || end == 0) continue;
    const size_t before = text.rfind('\n', end - 1);
    if (before != std::string::npos) text.erase(0, before + 1);
  }
}

}  // namespace

IsolatedRun RunIsolated(
    const std::function<void(const std::function<void(const std::string&)>& say)>& work,
    double limit_seconds) {
  int ends[2];
  // Programs that the child starts should not keep it open.
  if (pipe2(ends, O_CLOEXEC) != 0) return {absl::InternalError("no pipe for another process"), ""};
  const pid_t child = fork();
  if (child < 0) {
    return {absl::InternalError(absl::StrCat("no process: ", std::strerror(errno))), ""};
  }
  if (child == 0) {
    close(ends[0]);
    setpgid(0, 0);  // so that all that it starts can be ended with it
    work([&](const std::string& line) { WriteAll(ends[1], line + "\n"); });
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(limit_seconds));
  const bool in_time = ReadAll(ends[0], until, said);
  close(ends[0]);
  if (!in_time) {
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
  }
  int status = 0;
  if (in_time) {
    waitpid(child, &status, 0);
  } else {  // a driver may keep it for ever
    for (int k = 0; k < 50 && waitpid(child, &status, WNOHANG) == 0; ++k) usleep(100'000);
  }
  const size_t whole = said.find('\n');
  const std::string last = whole == std::string::npos ? "" : said.substr(0, whole);
  if (in_time) return {EndOf(status), last};
  return {absl::DeadlineExceededError(absl::StrCat("not done after ", limit_seconds, " seconds")),
          last};
}

}  // namespace partita
