#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/executor/executor.h"

namespace partita {

// Records of steps that ranks send each other: five 64-bit integers for every instruction.
std::string WriteInstructions(const std::vector<MeasuredInstruction>& instructions);

// The bytes that a rank's may be at most: what one device does with so many tasks.
int64_t MostInstructionBytes(int64_t tasks);

// Instructions of a rank, whose device has its number. Internal, naming the rank, where the bytes
// are no records of instructions of `tasks` tasks on that device.
absl::StatusOr<std::vector<MeasuredInstruction>> ReadInstructions(absl::string_view bytes, int rank,
                                                                  int64_t tasks);

}  // namespace partita
