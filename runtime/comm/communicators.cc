#include "runtime/comm/communicators.h"

#include "absl/strings/str_cat.h"
#include "graph/support/known_names.h"
#include "graph/support/option.h"
#include "runtime/comm/inproc/inproc_communicator.h"
#include "runtime/comm/message_communicator.h"
#ifdef PARTITA_HAVE_NCCL
#include "runtime/comm/nccl/nccl_communicator.h"
#endif
#include "runtime/comm/staged_communicator.h"
#include "runtime/comm/streams/stream_communicator.h"

namespace partita {
namespace {

absl::StatusOr<std::unique_ptr<Communicator>> MakeInproc(const CommunicatorSetup& setup) {
  return MakeInprocCommunicator(setup.devices);
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeMessages(const CommunicatorSetup& setup) {
  if (setup.port == nullptr) {
    return absl::UnavailableError(
        "this communicator wants one process for each device: partita launch, mpirun or torchrun");
  }
  if (setup.port->size() != setup.devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has ", setup.devices, " devices and the run ", setup.port->size(),
                     " processes; wanted one process for each device"));
  }
  return MakeStagedCommunicator(MakeMessageCommunicator(*setup.port));
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeStreams(const CommunicatorSetup& setup) {
  return MakeStreamCommunicator(setup.devices);
}

#ifdef PARTITA_HAVE_MPI
constexpr auto kMakeMpi = MakeMessages;
constexpr const char* kNoMpi = "";
#else
constexpr decltype(&MakeMessages) kMakeMpi = nullptr;
constexpr const char* kNoMpi = "MPI was not found when this program was built (libopenmpi-dev)";
#endif

#ifdef PARTITA_HAVE_NCCL
absl::StatusOr<std::unique_ptr<Communicator>> MakeNccl(const CommunicatorSetup& setup) {
  return MakeNcclCommunicator({.devices = setup.devices,
                               .port = setup.port,
                               .soname = setup.nccl_library,
                               .connect_seconds = setup.connect_seconds});
}
constexpr const char* kNoNccl = "";
#else
constexpr decltype(&MakeInproc) MakeNccl = nullptr;
constexpr const char* kNoNccl =
    "NCCL's header was not found when this program was built (nccl.h of 2.18 or later, beside the "
    "CUDA "
    "toolkit)";
#endif

constexpr CommunicatorRow kCommunicators[] = {
    {"inproc", MakeInproc, "devices are threads of one process with shared memory", ""},
    {"streams", MakeStreams, "devices of one process read each other's memory, ordered by events",
     ""},
    {"mpi", kMakeMpi, "devices are processes that MPI starts and connects", kNoMpi},
    {"tcp", MakeMessages,
     "devices are processes that connect to each other, started as by torchrun", ""},
    {"nccl", MakeNccl, "devices are NVIDIA GPUs that NCCL connects, of one process or of several",
     kNoNccl},
};

}  // namespace

std::span<const CommunicatorRow> Communicators() { return kCommunicators; }

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const std::string& name,
                                                               const CommunicatorSetup& setup) {
  for (const CommunicatorRow& row : kCommunicators) {
    if (name != row.name) continue;
    if (row.make != nullptr) return row.make(setup);
    return absl::UnavailableError(
        absl::StrCat("communicator '", name, "' is missing: ", row.missing));
  }
  return UnknownNameError("communicator", name, NamesOf(kCommunicators));
}

}  // namespace partita
