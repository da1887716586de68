#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/lowering/program.h"

namespace partita {

std::string ProgramText(const Program& program, const Graph& graph, DeviceId device) {
  const DeviceProgram& own = program.devices[device.index()];
  std::string text = absl::StrCat("device ", device.value(), "\n");
  for (const auto* lane : {&own.compute, &own.communication}) {
    absl::StrAppend(&text, lane == &own.compute ? "compute lane\n" : "communication lane\n");
    for (const Instruction& instruction : *lane) {
      absl::StrAppend(&text, "  ", TaskText(program.tasks, graph, instruction.task));
      for (TaskId wait : instruction.waits) absl::StrAppend(&text, " after #", wait.value());
      absl::StrAppend(&text, instruction.signals ? " signals\n" : "\n");
    }
  }
  return text;
}

std::string BuffersText(const Program& program, const Graph& graph, DeviceId device) {
  const BufferAssignment& memory = program.memory;
  std::string text = absl::StrFormat(
      "device %d: arena %d bytes, of them %d between steps; scratch %d bytes\n", device.value(),
      memory.arena[device.index()].value(), memory.persistent[device.index()].value(),
      memory.scratch[device.index()].value());
  std::vector<const Buffer*> buffers;
  for (const Buffer& buffer : program.tasks.buffers()) {
    if (buffer.device == device && memory.offset[buffer.id.index()] >= 0)
      buffers.push_back(&buffer);
  }
  std::stable_sort(buffers.begin(), buffers.end(), [&](const Buffer* a, const Buffer* b) {
    return memory.offset[a->id.index()] < memory.offset[b->id.index()];
  });
  for (const Buffer* buffer : buffers) {
    absl::StrAppendFormat(
        &text, "  %12d +%-12d b%d %s %s%s\n", memory.offset[buffer->id.index()],
        memory.bytes[buffer->id.index()], buffer->id.value(),
        buffer->tensor == kNoTensor ? "staging" : graph.tensor(buffer->tensor).name,
        Name(buffer->dtype), BoxText(*buffer));
  }
  return text;
}

}  // namespace partita
