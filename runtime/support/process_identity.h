#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace partita {

// Tells hosts apart, in one word: the start of the system, and the namespaces of processes and of
// networks that this process is in. Processes with equal identities name each other's processes by
// the same numbers and reach each other over loopback. Where the system does not say, no two
// processes have the same.
std::string HostIdentity();

// The host's name, for people.
std::string HostName();

// A process that another one may have to end.
struct ProcessIdentity {
  int id = 0;
  int64_t started = 0;  // start time in the system's ticks since boot: process ids are reused
  std::string host;     // HostIdentity

  std::string ToText() const;
  static std::optional<ProcessIdentity> FromText(absl::string_view text);
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

ProcessIdentity ThisProcess();

// Kills that process and no other: false, and nothing is done, where it is this one, is not on this
// host, has ended, or may not be killed.
bool KillProcess(const ProcessIdentity& process);

}  // namespace partita
