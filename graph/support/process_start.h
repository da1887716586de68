#pragma once

#include <cstdint>
#include <optional>

namespace partita {

// The time at which a process of this host began, in the system's ticks since it started: with the
// process's number, which comes again, it names one process. Nothing where there is no such process
// or the system does not report it.
std::optional<int64_t> ProcessStart(int64_t process);

}  // namespace partita
