#include "graph/task/fusion.h"

#include <vector>

namespace partita {
namespace {

// Which tasks touch each buffer.
struct Uses {
  absl::InlinedVector<TaskId, 2> readers, writers;
};

std::vector<Uses> UsesOf(const TaskGraph& graph) {
  std::vector<Uses> uses(graph.buffers().size());
  for (const Task& task : graph.tasks()) {
    const Access access = AccessOf(task);
    for (BufferId id : access.reads) uses[id.index()].readers.push_back(task.id);
    for (BufferId id : access.writes) uses[id.index()].writers.push_back(task.id);
  }
  for (const HostOutput& output : graph.outputs()) {
    uses[output.buffer.index()].readers.push_back(TaskId(-1));
  }
  return uses;
}

bool IsForward(const TaskGraph& graph, const ComputeTask& task, bool (*is)(const OpAttrs&)) {
  const KernelSignature& signature = graph.signatures()[static_cast<size_t>(task.signature)];
  return signature.pass.is_forward() && is(signature.attrs);
}

bool IsRelu(const OpAttrs& attrs) { return std::holds_alternative<Relu>(attrs); }

// The task that can take this ReLU over, or null.
const Task* ProducerFor(const TaskGraph& graph, const std::vector<Uses>& uses,
                        const ComputeTask& relu) {
  const BufferId value = relu.inputs[0];
  if (value == kNoBuffer || relu.outputs[0] == value) return nullptr;
  const Uses& use = uses[value.index()];
  if (use.readers.size() != 1 || use.writers.size() != 1) return nullptr;
  const Task& producer = graph.task(use.writers[0]);
  const auto* compute = std::get_if<ComputeTask>(&producer.body);
  if (compute == nullptr || compute->outputs.size() != 1 || compute->device != relu.device ||
      !IsForward(graph, *compute, CanFuseRelu)) {
    return nullptr;
  }
  return &producer;
}

}  // namespace

TaskGraph FuseActivations(const TaskGraph& graph) {
  const std::vector<Uses> uses = UsesOf(graph);
  std::vector<const ComputeTask*> relu_of(graph.tasks().size(), nullptr);  // by producer
  std::vector<bool> dropped(graph.tasks().size(), false);
  for (const Task& task : graph.tasks()) {
    const auto* relu = std::get_if<ComputeTask>(&task.body);
    if (relu == nullptr || !IsForward(graph, *relu, IsRelu)) continue;
    if (const Task* producer = ProducerFor(graph, uses, *relu)) {
      relu_of[producer->id.index()] = relu;
      dropped[task.id.index()] = true;
    }
  }
  TaskGraphBuilder builder(graph.devices());
  for (const Buffer& buffer : graph.buffers()) builder.AddBuffer(buffer);
  std::vector<int32_t> signatures(graph.signatures().size(), -1);  // as numbered by the builder
  for (const Task& task : graph.tasks()) {
    if (dropped[task.id.index()]) continue;
    TaskBody body = task.body;
    if (auto* compute = std::get_if<ComputeTask>(&body)) {
      const auto number = static_cast<size_t>(compute->signature);
      if (const ComputeTask* relu = relu_of[task.id.index()]) {
        KernelSignature signature = graph.signatures()[number];
        signature.fused_relu = true;
        compute->outputs = relu->outputs;
        compute->signature = builder.AddSignature(signature);
      } else {
        int32_t& known = signatures[number];
        if (known < 0) known = builder.AddSignature(graph.signatures()[number]);
        compute->signature = known;
      }
    }
    builder.AddTask(task.key, std::move(body));
  }
  for (const HostOutput& output : graph.outputs()) builder.AddOutput(output.tensor, output.buffer);
  return std::move(builder).Build();
}

}  // namespace partita
