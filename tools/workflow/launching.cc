#include "tools/workflow/launching.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "runtime/launch/verdict_line.h"

namespace partita {
namespace {

constexpr int kGoneCode = 5;
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

absl::StatusOr<pid_t> Start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) return absl::UnavailableError("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);  // Ctrl-C is passed on by us, so that ranks can end well
    execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!write(failed[1], &error, sizeof error);
    _exit(127);
  }
  close(failed[1]);
  int error = 0;
  const bool exec_failed = child > 0 && read(failed[0], &error, sizeof error) == sizeof error;
  close(failed[0]);
  if (child < 0) return absl::UnavailableError("cannot start a process");
  if (!exec_failed) return child;
  waitpid(child, nullptr, 0);
  return absl::UnavailableError(absl::StrCat("cannot start ", command[0], ": ",
                                             std::strerror(error),
                                             ". Try: apt-get install openmpi-bin"));
}

void PrintVerdict(VerdictLine& line) {
  const std::optional<std::string> verdict = line.Receive();
  if (verdict.has_value()) std::fprintf(stderr, "partita: %s\n", verdict->c_str());
}

}  // namespace

bool g_launched = false;
const char* g_verdict_path = "";

int CodeOfRank(int code) { return code == 0 ? 0 : kAgreed + code; }

int CodeOfLaunch(int wait_status, bool interrupted) {
  if (!WIFEXITED(wait_status)) return kGoneCode;
  const int code = WEXITSTATUS(wait_status);
  if (code == 0) return 0;
  if (code == CodeOfRank(130)) return interrupted ? 130 : kGoneCode;
  return code > kAgreed && code < 128 ? code - kAgreed : kGoneCode;
}

std::vector<std::string> LaunchCommand(const LaunchRequest& request,
                                       const LaunchedProgram& program) {
  // Ranks may be more than cores: then who waits has to let others work. Devices pin their own
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
  if (!request.hosts.empty()) command.insert(command.end(), {"--hostfile", request.hosts});
  if (!request.agent.empty()) {
    command.insert(command.end(), {"--mca", "plm_rsh_agent", request.agent});
  }
  command.insert(command.end(), {program.path, kLaunchedFlag + program.verdict_path});
  command.insert(command.end(), request.arguments.begin(), request.arguments.end());
  return command;
}

absl::StatusOr<int> Launch(const LaunchRequest& request) {
  std::error_code error;
  LaunchedProgram program{.path = std::filesystem::read_symlink("/proc/self/exe", error).string(),
                          .is_root = geteuid() == 0};
  const auto line = VerdictLine::Open();  // without it, ranks tell mpirun
  if (line.ok()) program.verdict_path = (*line)->path();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  ASSIGN_OR_RETURN(const pid_t launcher, Start(LaunchCommand(request, program)));
  bool asked = false;
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(launcher, &status, WNOHANG);
    if (line.ok()) PrintVerdict(**line);
    if (ended == launcher) break;
    if (IsSet(request.stop) && !asked) {
      kill(launcher, SIGUSR1);  // mpirun passes it on to the ranks, which take it for Ctrl-C
      asked = true;
    }
    usleep(20'000);
  }
  EndChildren();
  return CodeOfLaunch(status, asked);
}

}  // namespace partita
