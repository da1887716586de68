#include "tools/cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tools/cli/abrupt_end.h"
#include "tools/cli/verb.h"

namespace partita {

std::atomic<bool> g_interrupted{false};
std::string g_program = "partita";

namespace {

bool g_pipes_end_it = false;  // SIGPIPE was not ignored at the beginning
int g_output_error = 0;       // of the first Print that failed

std::atomic<const char*> g_ends_doing{nullptr};  // see EndsWhenInterrupted
static_assert(std::atomic<const char*>::is_always_lock_free);

// Nanoseconds after a first signal during which others are taken for its copies: `timeout` and
// launchers send one to the process and another one to its group, as a terminal and a script do.
constexpr int64_t kCopies = 500'000'000;
std::atomic<int64_t> g_first_signal{0};  // when it came, by MonotonicNanos(); 0: none did
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t MonotonicNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void Interrupt(int signal) {
  g_interrupted = true;
  if (const char* doing = g_ends_doing.load(); doing != nullptr) EndInterrupted(doing);
  const int64_t now = MonotonicNanos();
  int64_t first = 0;
  const bool again = !g_first_signal.compare_exchange_strong(first, now);
  // The second time, die.
  if (again && now - first > kCopies && signal != SIGHUP) {
    std::_Exit(CodeOf(ErrorCategory::kInterrupted));
  }
}

bool IsIgnored(int signal) {
  struct sigaction action{};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// What is written to a stdout that is closed is lost, and has to be found so: it cannot be written.
void OpenStandardStreams() {
  constexpr int kModes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int stream = 0; stream < 3; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    const int file = open("/dev/null", kModes[stream]);  // the lowest number that is free
    if (file > stream) close(file);
  }
}

}  // namespace

void SetUpProcess() {
  OpenStandardStreams();
  for (const int asked : {SIGINT, SIGTERM, SIGHUP}) {
    if (!IsIgnored(asked)) signal(asked, Interrupt);
  }
  signal(SIGUSR1, Interrupt);  // from launchers, which keep the others to themselves
  g_pipes_end_it = !IsIgnored(SIGPIPE);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

EndsWhenInterrupted::EndsWhenInterrupted(const char* doing) {
  g_ends_doing = doing;
  if (g_interrupted.load()) EndInterrupted(doing);  // before
}
EndsWhenInterrupted::~EndsWhenInterrupted() { g_ends_doing = nullptr; }

void InterruptIfUnheard() {
  if (!std::cerr.bad()) return;
  pollfd log{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&log, 1, 0) == 1 && (log.revents & POLLERR) != 0) g_interrupted = true;
}

void Print(const std::string& text) {
  errno = 0;
  std::cout << text << std::flush;
  if (!std::cout.good() && g_output_error == 0) g_output_error = errno != 0 ? errno : EIO;
}

bool IsStream(const std::string& path) {
  return path == "/dev/stdin" || path == "/dev/stdout" || path == "/dev/stderr" ||
         path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
}

bool IsStdout(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

int CodeOfOutput(int code) {
  if (g_output_error == 0) return code;
  if (g_output_error == EPIPE && g_pipes_end_it) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
  }
  std::cerr << "partita: cannot write to stdout: " << std::strerror(g_output_error) << "\n";
  return code == 0 ? 5 : code;
}

}  // namespace partita
