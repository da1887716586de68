#include "runtime/comm/communicators.h"

#include "absl/strings/str_cat.h"
#include "runtime/comm/inproc/inproc_communicator.h"

namespace partita {
namespace {

constexpr CommunicatorRow kCommunicators[] = {
    {"inproc", MakeInprocCommunicator, "devices are threads of one process with shared memory"},
};

}  // namespace

std::span<const CommunicatorRow> Communicators() { return kCommunicators; }

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const std::string& name,
                                                               int devices) {
  std::string names;
  for (const CommunicatorRow& row : kCommunicators) {
    if (name == row.name && row.make != nullptr) return row.make(devices);
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return absl::NotFoundError(
      absl::StrCat("unknown or missing communicator '", name, "'; known are: ", names));
}

}  // namespace partita
