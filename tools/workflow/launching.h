#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/workflow/option_checks.h"

namespace partita {

struct LaunchRequest {
  int ranks = 0;  // processes; on this host, unless there is a host file
  // A file: one host on a line, with slots=N after it if it takes several ranks.
  std::string hosts;
  // Remote agent in place of ssh: a program called with a host's name and a command.
  std::string agent;
  std::vector<std::string> arguments;       // arguments of this program, in every rank: "run", ...
  const std::atomic<bool>* stop = nullptr;  // stop flag: when it becomes true, ranks are asked to
                                            // end
  std::function<void()> on_output;          // callback when they have written to stderr

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "ranks",
                 .help = "processes, as many as the plan has devices",
                 .check = WholeNumber(1, 4096),
                 .unset = "0",
                 .letter = 'n',
                 .required = true},
          self.ranks);
    visit(Option{.name = "hosts",
                 .help = "a file with one host on a line, and slots=N behind it where it takes "
                         "several ranks",
                 .check = ExistingFile(),
                 .fallback = "all on this host"},
          self.hosts);
    visit(Option{.name = "agent",
                 .help = "a program that starts commands on those hosts, called with a host's name "
                         "and the command",
                 .check = ExistingFile(),
                 .fallback = "ssh",
                 .needs = "hosts"},
          self.agent);
  }
};

// The command that starts them: mpirun with what a machine of any number of cores needs.
struct LaunchedProgram {
  std::string path, verdict_line;
  std::string shared_folder;  // folder for MPI's shared memory between ranks; empty: MPI's default
  bool is_root = false;
};
std::vector<std::string> LaunchCommand(const LaunchRequest& request,
                                       const LaunchedProgram& program);

// A rank that ends by its own decision, or by one that it shares with the others, ends in this code
// in place of `code`, other than 0: this distinguishes it from one that was killed or that a
// library ended.
int CodeOfRank(int code);
// The first argument of ranks that do so, before the name of the launch's FailureChannel, which is
// empty if it has none.
constexpr char kLaunchedFlag[] = "--launched=";
// Whether this process is such a rank, and that name: set by the program when it starts.
extern bool g_launched;
extern const char* g_verdict_line;

// Exit code of a launch, by the wait status of mpirun: the code that the ranks have agreed on, and
// 5 where one of them or mpirun has ended otherwise. `interrupted`: the ranks were asked to end.
int CodeOfLaunch(int wait_status, bool interrupted);

// Starts the ranks, with a key of their own in their environment, and waits until all have ended,
// printing why to stderr if a rank fails; none of this host's is left then, whatever has happened.
// Returns CodeOfLaunch. Unavailable where there is no mpirun.
absl::StatusOr<int> Launch(const LaunchRequest& request);

}  // namespace partita
