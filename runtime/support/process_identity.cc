#include "runtime/support/process_identity.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/support/process_start.h"

namespace partita {
namespace {

constexpr size_t kLongest = 256;  // of an identity of a host

}  // namespace

std::string HostIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::vector<std::string> parts = {boot};
  for (const char* kind : {"pid", "net"}) {
    std::error_code error;
    parts.push_back(
        std::filesystem::read_symlink(absl::StrCat("/proc/self/ns/", kind), error).string());
    if (error) boot.clear();
  }
  if (boot.empty()) parts = {HostName(), absl::StrCat(getpid())};
  std::string identity = absl::StrJoin(parts, "/");
  for (char& c : identity) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) c = '_';
  }
  return identity.substr(0, kLongest);
}

std::string HostName() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string ProcessIdentity::ToText() const { return absl::StrCat(id, " ", started, " ", host); }

std::optional<ProcessIdentity> ProcessIdentity::FromText(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  ProcessIdentity read;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &read.id) ||
      !absl::SimpleAtoi(words[1], &read.started) || read.id <= 1 || words[2].empty() ||
      words[2].size() > kLongest) {
    return std::nullopt;
  }
  read.host = std::string(words[2]);
  return read;
}

ProcessIdentity ThisProcess() {
  return {static_cast<int>(getpid()), ProcessStart(getpid()).value_or(-1), HostIdentity()};
}

bool KillProcess(const ProcessIdentity& process) {
  if (process.id <= 1 || process.id == getpid() || process.host != HostIdentity()) return false;
  // From now on the descriptor means one process, whatever its number comes to mean.
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process.id, 0));
  if (descriptor < 0) return false;
  const bool killed = ProcessStart(process.id) == process.started &&
                      syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0) == 0;
  close(descriptor);
  return killed;
}

}  // namespace partita
