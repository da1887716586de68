#include "tools/workflow/launching.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/support/temporary.h"
#include "runtime/launch/failure_channel.h"
#include "runtime/support/hmac.h"
#include "runtime/support/run_key.h"
#include "tools/workflow/banner_filter.h"

namespace partita {
namespace {

constexpr int kGoneCode = static_cast<int>(ErrorCategory::kSystem);
constexpr int kInterruptedCode = static_cast<int>(ErrorCategory::kInterrupted);
// Exit codes are below 128 + 64, the last signal's; those of libraries are small. 130, for an
// interruption, then is 194.
constexpr int kAgreed = 64;

// The ids of processes whose parent this process is.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child; file >> child;) children.push_back(child);
  }
  return children;
}

// Kills what the launcher has left behind: as the subreaper, this process inherits it.
void EndChildren() {
  for (int round = 0; round < 100; ++round) {
    const std::vector<pid_t> children = Children();
    if (children.empty()) return;
    for (pid_t child : children) kill(child, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    usleep(20'000);
  }
}

// The launcher of ranks and what it and they write to stderr, without waiting for more.
struct Launcher {
  pid_t process = 0;
  int said = -1;
  BannerFilter filter;
};

// In the new process. It ends when this one does, and has the signals as this one had them.
void BecomePart(pid_t parent, int says) {
  setpgid(0, 0);  // Ctrl-C is passed on by us, so that ranks can end well
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  dup2(says, STDERR_FILENO);
}

// What is started finds in its environment.
struct Surroundings {
  std::string secret;  // of the run's key
  std::string folder;  // for temporary files; empty: where it likes
};

absl::StatusOr<Launcher> Start(const std::vector<std::string>& command, const Surroundings& with) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int failed[2], said[2];
  if (pipe2(failed, O_CLOEXEC) != 0 || pipe2(said, O_CLOEXEC) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a pipe to ", command[0], ": ", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    BecomePart(parent, said[1]);
    setenv(kKeyVariable, with.secret.c_str(), 1);
    if (!with.folder.empty()) setenv("TMPDIR", with.folder.c_str(), 1);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!write(failed[1], &error, sizeof error);
    _exit(127);
  }
  close(failed[1]);
  close(said[1]);
  fcntl(said[0], F_SETFL, O_NONBLOCK);
  int error = 0;
  const bool exec_failed = child > 0 && read(failed[0], &error, sizeof error) == sizeof error;
  close(failed[0]);
  if (child < 0) return absl::UnavailableError("cannot start a process");
  if (!exec_failed) return Launcher{.process = child, .said = said[0], .filter = {}};
  waitpid(child, nullptr, 0);
  close(said[0]);
  return absl::UnavailableError(absl::StrCat("cannot start ", command[0], ": ",
                                             std::strerror(error),
                                             ". Try: apt-get install openmpi-bin"));
}

// Shows what is said within that time; false where nothing is.
bool PassOn(Launcher& launcher, int milliseconds) {
  pollfd ready{.fd = launcher.said, .events = POLLIN, .revents = 0};
  poll(&ready, 1, milliseconds);
  char text[1 << 16];
  const ssize_t length = read(launcher.said, text, sizeof text);
  if (length == 0) usleep(1000 * milliseconds);  // no process is left that could write
  if (length <= 0) return false;
  std::cerr << launcher.filter.Pass(absl::string_view(text, static_cast<size_t>(length)));
  return true;
}

void PrintVerdict(FailureChannel& line) {
  const std::optional<std::string> verdict = line.Receive();
  if (verdict.has_value()) std::fprintf(stderr, "partita: %s\n", verdict->c_str());
}

}  // namespace

bool g_launched = false;
const char* g_verdict_line = "";

int CodeOfRank(int code) { return code == 0 ? 0 : kAgreed + code; }

int CodeOfLaunch(int wait_status, bool interrupted) {
  if (!WIFEXITED(wait_status)) return kGoneCode;
  const int code = WEXITSTATUS(wait_status);
  if (code == 0) return 0;
  if (code == CodeOfRank(kInterruptedCode)) return interrupted ? kInterruptedCode : kGoneCode;
  return code > kAgreed && code < 128 ? code - kAgreed : kGoneCode;
}

std::vector<std::string> LaunchCommand(const LaunchRequest& request,
                                       const LaunchedProgram& program) {
  // Ranks may be more than cores: then ranks that wait have to yield. Devices pin their own
  // threads.
  std::vector<std::string> command = {"mpirun",
                                      "-n",
                                      absl::StrCat(request.ranks),
                                      "--oversubscribe",
                                      "--bind-to",
                                      "none",
                                      "--mca",
                                      "mpi_yield_when_idle",
                                      "1"};
  if (program.is_root) command.push_back("--allow-run-as-root");
  command.insert(command.end(), {"-x", kKeyVariable});  // its name; the value is in the environment
  if (!request.hosts.empty()) command.insert(command.end(), {"--hostfile", request.hosts});
  if (!request.agent.empty()) {
    command.insert(command.end(), {"--mca", "plm_rsh_agent", request.agent});
  }
  if (!program.shared_folder.empty()) {
    command.insert(command.end(), {"--mca", "btl_vader_backing_directory", program.shared_folder});
  }
  command.insert(command.end(), {program.path, kLaunchedFlag + program.verdict_line});
  command.insert(command.end(), request.arguments.begin(), request.arguments.end());
  return command;
}

absl::StatusOr<int> Launch(const LaunchRequest& request) {
  std::error_code error;
  LaunchedProgram program{.path = std::filesystem::read_symlink("/proc/self/exe", error).string(),
                          .is_root = geteuid() == 0};
  const auto folder = TemporaryFolder::Create();
  Surroundings with{.secret = RunKey::NewSecret(), .folder = folder.ok() ? folder->path() : ""};
  ASSIGN_OR_RETURN(const RunKey key, RunKey::FromSecret(with.secret));
  const auto line = FailureChannel::Open(key);  // without it, ranks tell mpirun
  if (line.ok()) program.verdict_line = (*line)->name();
  // Other hosts have no such folder.
  const auto shared = request.hosts.empty()
                          ? TemporaryFolder::CreateIn("/dev/shm")
                          : absl::UnavailableError("several hosts share no memory");
  if (shared.ok()) program.shared_folder = shared->path();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  ASSIGN_OR_RETURN(Launcher launcher, Start(LaunchCommand(request, program), with));
  Wipe(with.secret);
  constexpr int kRoundMilliseconds = 20, kSilentRounds = 50;
  bool asked = false;
  int status = 0, silent = 0;
  for (;;) {
    const pid_t ended = waitpid(launcher.process, &status, WNOHANG);
    if (line.ok()) PrintVerdict(**line);
    if (ended == launcher.process) break;
    if (IsSet(request.stop) && !asked) {
      kill(launcher.process,
           SIGUSR1);  // mpirun passes it on to the ranks, which take it for Ctrl-C
      asked = true;
    }
    silent = PassOn(launcher, kRoundMilliseconds) ? 0 : silent + 1;
    if (silent == kSilentRounds) std::cerr << launcher.filter.Rest();
    if (silent == 0 && request.on_output) request.on_output();
  }
  EndChildren();
  while (PassOn(launcher, 0)) {
  }
  std::cerr << launcher.filter.Rest();
  close(launcher.said);
  if (WIFSIGNALED(status)) {
    std::cerr << "partita: mpirun was ended by signal " << WTERMSIG(status) << " ("
              << strsignal(WTERMSIG(status)) << "), and the ranks with it\n";
  }
  return CodeOfLaunch(status, asked);
}

}  // namespace partita
