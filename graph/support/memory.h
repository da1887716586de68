#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Memory that this process may still take.

namespace partita {

// Bytes that are left of `usable` bytes: as the kernel estimates for the host, or of the control
// group's limit.
int64_t AvailableMemory(int64_t usable);

// Physical memory of the host, or the limit of the control groups where that is smaller. From the
// kernel, not from hwloc, which adds up the NUMA nodes that it could make.
int64_t UsableMemory();

// Checks, before memory is taken whose size a file or a user states, that there is room for it:
// ResourceExhausted, naming `what` ("the weights of 'net.onnx'"), where `bytes` are more than the
// host has left or the process's limits (RLIMIT_AS, RLIMIT_DATA) allow.
absl::Status CheckMemory(int64_t bytes, absl::string_view what);

}  // namespace partita
