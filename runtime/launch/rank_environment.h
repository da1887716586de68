#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace partita {

// A launcher's word to this process about the run that it is part of.
struct RankEnvironment {
  enum class Launcher { kMpi, kTorchrun };
  Launcher launcher = Launcher::kTorchrun;
  int rank = 0, size = 1;  // size > 1
  // Values of torchrun; not of MPI, which connects its processes itself.
  std::string address = "127.0.0.1";  // of rank 0: a name or an IPv4 address
  int port = 29500;                   // port at which rank 0 listens
  int local_size = 0;                 // ranks of this host; 0: unknown
};

// The value of a variable of the environment; null if it has none.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// Reads the variables of Open MPI (OMPI_COMM_WORLD_*), of other MPI libraries (PMI_*), and those of
// torchrun and launchers like it (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_WORLD_SIZE,
// TORCHELASTIC_USE_AGENT_STORE). nullopt if no launcher has started this process, or only this one.
// UsageError where some are absent of those that go together, or one is no number of its range: it
// names the value found and the one expected.
absl::StatusOr<std::optional<RankEnvironment>> ReadRankEnvironment(const EnvironmentLookup& lookup);

}  // namespace partita
