#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/task/task_graph.h"

namespace partita {
namespace {

std::string DevicesText(const std::vector<DeviceId>& devices) {
  return absl::StrJoin(devices, ",",
                       [](std::string* out, DeviceId d) { absl::StrAppend(out, d.value()); });
}

absl::string_view PhaseName(TaskKey::Phase phase) {
  constexpr absl::string_view kNames[] = {"compute", "load", "fill",   "sum",    "pack",
                                          "move",    "send", "unpack", "convert"};
  return kNames[static_cast<size_t>(phase)];
}

std::string NameOf(const Graph& graph, const Task& task, const ComputeTask& body) {
  const std::string& op = graph.op(body.op).name;
  return body.part == 0 && task.key.from == 0 ? op : absl::StrCat(op, " part ", body.part);
}

std::string NameOf(const Graph& graph, const Task& task, const CollectiveTask& body) {
  std::string more;
  if (!body.bucket.empty()) more = absl::StrCat(" and ", body.bucket.size() - 1, " more");
  return absl::StrCat(Name(body.collective.kind), " ",
                      graph.tensor(TensorId(task.key.subject)).name, more, " (", body.algorithm,
                      ", ", body.group.size(), " devices)");
}

std::string NameOf(const Graph& graph, const Task& task, const TransferTask&) {
  return absl::StrCat("transfer ", graph.tensor(TensorId(task.key.subject)).name);
}

// Moves and loads.
template <class Body>
std::string NameOf(const Graph& graph, const Task& task, const Body&) {
  return absl::StrCat(PhaseName(task.key.phase), " ",
                      graph.tensor(TensorId(task.key.subject)).name);
}

struct BodyText {
  const TaskGraph& tasks;

  std::string operator()(const ComputeTask& t) const {
    return absl::StrCat(ToString(tasks.signatures()[static_cast<size_t>(t.signature)]), " on ",
                        t.device.value());
  }
  std::string operator()(const MoveTask& t) const {
    std::string text = absl::StrCat("on ", t.device.value());
    for (const MoveSignature& signature : SignaturesOf(t)) {
      absl::StrAppend(&text, " [", ToString(signature), "]");
    }
    return text;
  }
  std::string operator()(const LoadTask& t) const {
    return absl::StrCat(ToString(tasks.buffer(t.buffer).box), " on ", t.device.value());
  }
  std::string operator()(const CollectiveTask& t) const {
    return absl::StrCat(ToString(t.collective), " ", Name(t.dtype), " by ", t.algorithm, " on ",
                        DevicesText(t.group));
  }
  std::string operator()(const TransferTask& t) const {
    std::string text;
    for (const Transfer& transfer : t.transfers) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", transfer.from.value(), "->",
                      transfer.to.value(), " ", transfer.send.count, " ", Name(t.dtype));
    }
    return text;
  }
};

}  // namespace

std::string TaskName(const Graph& graph, const Task& task) {
  return std::visit([&](const auto& body) { return NameOf(graph, task, body); }, task.body);
}

std::string TaskText(const TaskGraph& tasks, const Graph& graph, TaskId id) {
  const Task& task = tasks.task(id);
  return absl::StrCat("#", id.value(), " ", TaskName(graph, task), ": ",
                      std::visit(BodyText{tasks}, task.body));
}

std::string TaskGraphText(const TaskGraph& tasks, const Graph& graph) {
  std::string text;
  for (const Task& task : tasks.tasks()) {
    absl::StrAppend(&text, TaskText(tasks, graph, task.id));
    if (!task.dependencies.empty()) {
      absl::StrAppend(&text, " after ",
                      absl::StrJoin(task.dependencies, ",", [](std::string* out, TaskId d) {
                        absl::StrAppend(out, "#", d.value());
                      }));
    }
    if (!task.after.empty()) {
      absl::StrAppend(&text, " control ",
                      absl::StrJoin(task.after, ",", [](std::string* out, TaskId d) {
                        absl::StrAppend(out, "#", d.value());
                      }));
    }
    text += "\n";
  }
  return text;
}

}  // namespace partita
