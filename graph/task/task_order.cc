#include "graph/task/task_order.h"

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

constexpr absl::string_view kTry =
    "delete order, task_graph_fingerprint and prediction to run in the canonical order";

}  // namespace

std::vector<TaskId> CanonicalOrder(const TaskGraph& graph) {
  std::vector<TaskId> order;
  for (const Task& task : graph.tasks()) order.push_back(task.id);
  return order;
}

absl::Status CheckOrder(const TaskGraph& tasks, const std::vector<TaskId>& order) {
  const size_t n = tasks.tasks().size();
  std::vector<bool> done(n, false);
  for (TaskId id : order) {
    if (id.value() < 0 || id.index() >= n || done[id.index()]) {
      return absl::InvalidArgumentError(absl::StrCat("the order names task ", id.value(), " of ", n,
                                                     id.index() < n ? " twice" : "", "; ", kTry));
    }
    for (TaskId before : tasks.task(id).dependencies) {
      if (!done[before.index()]) {
        return absl::InvalidArgumentError(absl::StrCat("the order runs task ", id.value(),
                                                       " before task ", before.value(),
                                                       ", which it depends on; ", kTry));
      }
    }
    done[id.index()] = true;
  }
  if (order.size() == n) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the order has ", order.size(), " of ", n, " tasks; ", kTry));
}

}  // namespace partita
