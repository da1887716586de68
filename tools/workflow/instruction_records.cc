#include "tools/workflow/instruction_records.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

// Task, device, whether it communicates, start and end.
using Record = std::array<int64_t, 5>;
constexpr int64_t kMostOfATask = 16;  // instructions, on one device

}  // namespace

int64_t MostInstructionBytes(int64_t tasks) {
  return tasks * kMostOfATask * static_cast<int64_t>(sizeof(Record));
}

std::string WriteInstructions(const std::vector<MeasuredInstruction>& instructions) {
  std::string bytes;
  bytes.reserve(instructions.size() * sizeof(Record));
  for (const MeasuredInstruction& one : instructions) {
    const Record record = {one.task.value(), one.device.value(), one.communication ? 1 : 0,
                           one.start_ns, one.end_ns};
    bytes.append(reinterpret_cast<const char*>(record.data()), sizeof record);
  }
  return bytes;
}

absl::StatusOr<std::vector<MeasuredInstruction>> ReadInstructions(absl::string_view bytes, int rank,
                                                                  int64_t tasks) {
  if (bytes.size() % sizeof(Record) != 0 ||
      static_cast<int64_t>(bytes.size()) > MostInstructionBytes(tasks)) {
    return absl::InternalError(absl::StrCat(
        "rank ", rank, " tells ", bytes.size(), " bytes about its step; wanted: a multiple of ",
        sizeof(Record), ", at most ", MostInstructionBytes(tasks)));
  }
  std::vector<MeasuredInstruction> read;
  read.reserve(bytes.size() / sizeof(Record));
  for (size_t at = 0; at < bytes.size(); at += sizeof(Record)) {
    Record record{};
    std::memcpy(record.data(), bytes.data() + at, sizeof record);
    const auto [task, device, communication, start, end] = record;
    if (task < 0 || task >= tasks || device != rank || (communication & ~int64_t{1}) != 0) {
      return absl::InternalError(absl::StrCat("rank ", rank, " tells about task ", task,
                                              " of device ", device, "; wanted: one of ", tasks,
                                              " tasks, of device ", rank));
    }
    read.push_back({.task = TaskId(static_cast<int32_t>(task)),
                    .device = DeviceId(static_cast<int32_t>(device)),
                    .communication = communication == 1,
                    .start_ns = start,
                    .end_ns = end});
  }
  return read;
}

}  // namespace partita
