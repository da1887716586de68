#include "tools/workflow/memory_check.h"

#include "graph/support/memory.h"
#include "graph/task/buffer_assignment.h"
#include "runtime/comm/message_port.h"

namespace partita {
namespace {

int64_t BytesOfState(const Graph& graph) {
  int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors()) {
    const bool kept = tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kState;
    if (kept) bytes += tensor.type.bytes();
  }
  return bytes;
}

}  // namespace

absl::Status CheckHostMemory(const Graph& graph, const PlannedStep& step,
                             const ExecutorSetup& setup) {
  int64_t needed = BytesOfState(graph);
  const BufferAssignment memory = AssignBuffers(step.tasks, step.order, {});
  for (size_t d = 0; d < setup.devices.size(); ++d) {
    const bool here = setup.port == nullptr || setup.port->rank() == static_cast<int>(d);
    if (!here || !setup.devices[d].backend->RunsOnHost()) continue;
    needed += memory.peak(DeviceId(static_cast<int>(d))).value();
  }
  return CheckMemory(needed, "the weights of this run and what its devices keep for a step");
}

}  // namespace partita
