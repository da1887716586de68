#include "tests/bench/limited_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "graph/support/check.h"

namespace partita {
namespace {

constexpr int kNoMemory = 42;  // exit status
using Clock = std::chrono::steady_clock;

void WriteAll(int file, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(file, text.data() + written, text.size() - written);
    if (n <= 0) _exit(EXIT_FAILURE);  // nobody reads any more
    written += static_cast<size_t>(n);
  }
}

[[noreturn]] void Child(const ProcessLimits& limits, int out,
                        const std::function<void(const std::function<void(std::string)>&)>& work) {
  if (limits.bytes > 0) {
    const auto bytes = static_cast<rlim_t>(limits.bytes);
    const rlimit limit{bytes, bytes};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    std::set_new_handler([] { _exit(kNoMemory); });
  }
  work([out](std::string text) { WriteAll(out, text + "\n"); });
  std::fflush(nullptr);
  _exit(EXIT_SUCCESS);
}

// Hands on whole lines until the other side ends; false: the time is over before.
bool ReadLines(int in, const ProcessLimits& limits,
               const std::function<void(const std::string&)>& line) {
  const auto end = Clock::now() + std::chrono::duration<double>(limits.seconds);
  std::string rest;
  for (;;) {
    int wait = -1;
    if (limits.seconds > 0) {
      wait = static_cast<int>(
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count());
      if (wait <= 0) return false;
    }
    pollfd ready{.fd = in, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, wait) <= 0) continue;
    char buffer[4096];
    const ssize_t n = read(in, buffer, sizeof buffer);
    if (n <= 0) return true;
    rest.append(buffer, static_cast<size_t>(n));
    for (size_t at = rest.find('\n'); at != std::string::npos; at = rest.find('\n')) {
      line(rest.substr(0, at));
      rest.erase(0, at + 1);
    }
  }
}

}  // namespace

ProcessEnd RunLimited(const ProcessLimits& limits,
                      const std::function<void(const std::function<void(std::string)>&)>& work,
                      const std::function<void(const std::string&)>& line) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    Child(limits, ends[1], work);
  }
  close(ends[1]);
  ProcessEnd end;
  const bool in_time = ReadLines(ends[0], limits, line);
  if (!in_time) kill(child, SIGKILL);
  close(ends[0]);
  int status = 0;
  rusage usage{};
  CHECK(wait4(child, &status, 0, &usage) == child);
  end.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  if (!in_time) {
    end.kind = ProcessEnd::Kind::kOutOfTime;
  } else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) {
    end.kind = ProcessEnd::Kind::kDone;
  } else if (WIFEXITED(status) && WEXITSTATUS(status) == kNoMemory) {
    end.kind = ProcessEnd::Kind::kOutOfMemory;
  }
  return end;
}

}  // namespace partita
