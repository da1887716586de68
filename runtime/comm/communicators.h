#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"

namespace partita {

struct CommunicatorRow {
  const char* name;
  std::unique_ptr<Communicator> (*make)(int devices);  // null: not built into this program
  const char* description;
};

// THE table of communicators.
std::span<const CommunicatorRow> Communicators();

// NotFound lists the valid names.
absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const std::string& name,
                                                               int devices);

}  // namespace partita
