#include "runtime/profiler/disturbance.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace partita {
namespace {

// Cores on average from which on others are worth a warning, and seconds below which the kernel's
// ticks say nothing.
constexpr double kNoticed = 0.25;
constexpr double kLeastSeconds = 0.2;
constexpr int kMostNamed = 8;  // processes

// The columns of a line of /proc/stat after its name.
enum Column { kUser, kNice, kSystem, kIdle, kWaiting, kInterrupts, kSoftInterrupts, kStolen };

std::string ProcStat() {
  std::ifstream file("/proc/stat");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<int> AllowedCores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

double OwnSeconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The abstract address of a core; returns its length.
socklen_t AddressOf(int core, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::string name = absl::StrCat("partita measures on core ", core);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

int NewSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

}  // namespace

std::optional<CoreTimes> CoreTimesIn(absl::string_view proc_stat, std::span<const int> cores) {
  CoreTimes sum;
  size_t found = 0;
  for (const absl::string_view line : absl::StrSplit(proc_stat, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 2 + kStolen || words[0].substr(0, 3) != "cpu") continue;
    int core = 0;
    if (!absl::SimpleAtoi(words[0].substr(3), &core)) continue;
    if (std::find(cores.begin(), cores.end(), core) == cores.end()) continue;
    int64_t columns[kStolen + 1];
    for (int c = 0; c <= kStolen; ++c) {
      if (!absl::SimpleAtoi(words[static_cast<size_t>(1 + c)], &columns[c])) return std::nullopt;
      sum.all += columns[c];
    }
    for (const Column c : {kUser, kNice, kSystem, kInterrupts, kSoftInterrupts}) {
      sum.computed += columns[c];
    }
    sum.stolen += columns[kStolen];
    ++found;
  }
  if (found == 0 || found != cores.size() || sum.all == 0) return std::nullopt;
  return sum;
}

Disturbance& Disturbance::operator+=(const Disturbance& more) {
  seconds += more.seconds;
  others += more.others;
  stolen += more.stolen;
  for (int process : more.measuring) {
    if (std::find(measuring.begin(), measuring.end(), process) == measuring.end()) {
      measuring.push_back(process);
    }
  }
  return *this;
}

Disturbance DisturbanceBetween(const CoreTimes& before, const CoreTimes& after, size_t cores,
                               double own, double ticks_per_second) {
  const auto seconds = [ticks_per_second](int64_t ticks) {
    return std::max(0.0, static_cast<double>(ticks) / ticks_per_second);
  };
  Disturbance found;
  found.seconds = seconds(after.all - before.all) / static_cast<double>(cores);
  found.others = std::max(0.0, seconds(after.computed - before.computed) - own);
  found.stolen = seconds(after.stolen - before.stolen);
  return found;
}

std::vector<std::string> WarningsOf(const Disturbance& disturbance) {
  std::vector<std::string> warnings;
  if (disturbance.seconds >= kLeastSeconds) {
    const double others = disturbance.others / disturbance.seconds;
    const double stolen = disturbance.stolen / disturbance.seconds;
    if (others >= kNoticed) {
      warnings.push_back(absl::StrFormat(
          "while measuring, other processes kept %.1f of this process's cores busy: what was "
          "measured is too long or unsteady. End them, or give this one cores of its own "
          "(taskset), and measure again; a profile database keeps what it has, so let that be "
          "another one (--profile)",
          others));
    }
    if (stolen >= kNoticed) {
      warnings.push_back(absl::StrFormat(
          "while measuring, the host of this virtual machine gave %.1f of its cores to others: "
          "what was measured is too long or unsteady. Measure again at a quieter time; a "
          "profile database keeps what it has, so let that be another one (--profile)",
          stolen));
    }
  }
  if (!disturbance.measuring.empty()) {
    std::vector<std::string> names;
    for (int process : disturbance.measuring) {
      names.push_back(process > 0 ? absl::StrCat(process) : "unknown");
    }
    warnings.push_back(absl::StrCat(
        "on the same cores another partita measured too (process ", absl::StrJoin(names, ", "),
        "): both measured each other. Let one end before the other begins, or give each cores of "
        "its own (taskset)"));
  }
  return warnings;
}

MeasuringClaim::MeasuringClaim(std::span<const int> cores) {
  for (int core : cores) {
    sockaddr_un address;
    const socklen_t length = AddressOf(core, address);
    const int own = NewSocket();
    if (own < 0) return;
    if (bind(own, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
        listen(own, kMostNamed) == 0) {
      sockets_.push_back(own);
      continue;
    }
    // Another process has it: connecting tells each the other's id.
    if (connect(own, reinterpret_cast<const sockaddr*>(&address), length) == 0) Note(own);
    close(own);
  }
}

MeasuringClaim::~MeasuringClaim() {
  for (int socket : sockets_) close(socket);
}

void MeasuringClaim::Note(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  if (peer.pid == getpid() || others_.size() >= kMostNamed) return;
  if (std::find(others_.begin(), others_.end(), peer.pid) == others_.end()) {
    others_.push_back(peer.pid);
  }
}

std::vector<int> MeasuringClaim::Others() {
  for (int socket : sockets_) {
    for (int k = 0; k < kMostNamed; ++k) {
      const int connection = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) break;
      Note(connection);
      close(connection);
    }
  }
  return others_;
}

DisturbanceWatch::DisturbanceWatch()
    : cores_(AllowedCores()),
      claim_(cores_),
      begin_(CoreTimesIn(ProcStat(), cores_)),
      own_(OwnSeconds()) {}

Disturbance DisturbanceWatch::SoFar() {
  Disturbance found;
  const double own = OwnSeconds() - own_;
  const std::optional<CoreTimes> end = CoreTimesIn(ProcStat(), cores_);
  if (begin_.has_value() && end.has_value()) {
    found = DisturbanceBetween(*begin_, *end, cores_.size(), own,
                               static_cast<double>(sysconf(_SC_CLK_TCK)));
  }
  found.measuring = claim_.Others();
  return found;
}

}  // namespace partita
