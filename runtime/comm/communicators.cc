#include "runtime/comm/communicators.h"

#include "absl/strings/str_cat.h"
#include "runtime/comm/inproc/inproc_communicator.h"
#include "runtime/comm/message_communicator.h"
#ifdef PARTITA_HAVE_NCCL
#include "runtime/comm/nccl/nccl_communicator.h"
#endif

namespace partita {
namespace {

absl::StatusOr<std::unique_ptr<Communicator>> MakeInproc(const CommunicatorSetup& setup) {
  return MakeInprocCommunicator(setup.devices);
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeMpi(const CommunicatorSetup& setup) {
  if (setup.port == nullptr) {
    return absl::UnavailableError("communicator mpi wants processes started by an MPI launcher");
  }
  if (setup.port->size() != setup.devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has ", setup.devices, " devices and the run ", setup.port->size(),
                     " processes; wanted one process for each device"));
  }
  return MakeMessageCommunicator(*setup.port);
}

#ifdef PARTITA_HAVE_MPI
constexpr auto kMakeMpi = MakeMpi;
constexpr const char* kNoMpi = "";
#else
constexpr decltype(&MakeMpi) kMakeMpi = nullptr;
constexpr const char* kNoMpi = "MPI was not found when this program was built (libopenmpi-dev)";
#endif

#ifdef PARTITA_HAVE_NCCL
absl::StatusOr<std::unique_ptr<Communicator>> MakeNccl(const CommunicatorSetup& setup) {
  return MakeNcclCommunicator({.devices = setup.devices,
                               .port = setup.port,
                               .library = setup.nccl_library,
                               .connect_seconds = setup.connect_seconds});
}
constexpr const char* kNoNccl = "";
#else
constexpr decltype(&MakeInproc) MakeNccl = nullptr;
constexpr const char* kNoNccl =
    "NCCL's header was not found when this program was built (nccl.h beside the CUDA toolkit)";
#endif

constexpr CommunicatorRow kCommunicators[] = {
    {"inproc", MakeInproc, "devices are threads of one process with shared memory", ""},
    {"mpi", kMakeMpi, "devices are processes that MPI starts and connects", kNoMpi},
    {"nccl", MakeNccl, "devices are NVIDIA GPUs that NCCL connects, of one process or of several",
     kNoNccl},
};

}  // namespace

std::span<const CommunicatorRow> Communicators() { return kCommunicators; }

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const std::string& name,
                                                               const CommunicatorSetup& setup) {
  std::string names;
  for (const CommunicatorRow& row : kCommunicators) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
    if (name != row.name) continue;
    if (row.make != nullptr) return row.make(setup);
    return absl::UnavailableError(
        absl::StrCat("communicator '", name, "' is missing: ", row.missing));
  }
  return absl::NotFoundError(absl::StrCat("unknown communicator '", name, "'; known are: ", names));
}

}  // namespace partita
