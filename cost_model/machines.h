#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cost_model/machine.h"

namespace partita {

// A machine that needs no file.
struct NamedMachine {
  absl::string_view name;
  absl::StatusOr<Machine> (*make)();
  absl::string_view description;
};

// THE table of named machines, `local` (this one, see discovery.h) first.
absl::Span<const NamedMachine> NamedMachines();

// Machines of one kind in any size, described by levels (graph/parallel/levels.h).
struct MachineFamily {
  absl::string_view name;  // a capital stands for a number: "h100-Nx8"
  absl::StatusOr<Machine> (*make)(absl::Span<const int> numbers);
  absl::string_view description;
  absl::string_view example;  // one of its machines
};

// THE table of families.
absl::Span<const MachineFamily> MachineFamilies();

// Whether a name is of the table, or of a family.
bool IsMachineName(absl::string_view name);
// "local", "p100-4x4", .., "h100-Nx8", ..
std::vector<std::string> MachineNames();
// UnknownNameText of a machine, with what a capital stands for.
std::string UnknownMachineText(const std::string& name);

// The machine that a user means: a file where the text has a '/' or a '.', otherwise a name of the
// table or of a family (NotFound lists them). With `devices`, its first so many; `local` then divides its cores
// among so many devices, more than cores only with `oversubscribe`, which no other machine takes
// (UsageError).
absl::StatusOr<Machine> FindMachine(const std::string& name_or_file,
                                    std::optional<int> devices = std::nullopt,
                                    bool oversubscribe = false);

}  // namespace partita
