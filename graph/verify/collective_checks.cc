#include "graph/verify/collective_checks.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

class CollectiveChecker {
 public:
  CollectiveChecker(const Graph& graph, const TaskGraph& tasks) : graph_(graph) {
    for (const Task& task : tasks.tasks()) {
      const auto* body = std::get_if<CollectiveTask>(&task.body);
      if (body == nullptr) continue;
      by_step_[{TensorId(task.key.subject), task.key.step}].push_back(body);
      buckets_ += body->bucket.empty() ? 0 : 1;
    }
  }

  absl::Status Run(const Strategy& strategy) const {
    for (const AlgorithmChoice& choice : strategy.algorithms) {
      RETURN_IF_ERROR(CheckOne(choice.collective, choice.algorithm, {}));
    }
    for (const Bucket& bucket : strategy.buckets) {
      std::vector<TensorId> tensors;
      for (const CollectiveStepId& member : bucket.members) tensors.push_back(member.tensor);
      RETURN_IF_ERROR(CheckOne(bucket.members[0], bucket.algorithm, tensors));
      for (size_t m = 1; m < bucket.members.size(); ++m) {
        if (by_step_.contains(bucket.members[m])) {
          return Wrong(bucket.members[m], "runs by itself and in a bucket");
        }
      }
    }
    if (buckets_ == strategy.buckets.size()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the tasks have ", buckets_, " buckets; the strategy ",
                                            strategy.buckets.size()));
  }

 private:
  absl::Status CheckOne(const CollectiveStepId& id, const std::string& algorithm,
                        const std::vector<TensorId>& bucket) const {
    const auto found = by_step_.find(id);
    if (found == by_step_.end() || found->second.size() != 1) {
      return Wrong(id, "is not there once");
    }
    const CollectiveTask& task = *found->second[0];
    const bool runs_by = algorithm.empty() || task.algorithm == algorithm ||
                         absl::StartsWith(task.algorithm, absl::StrCat(algorithm, "(nodes="));
    if (!runs_by) {
      return Wrong(id, absl::StrCat("runs by ", task.algorithm, "; wanted ", algorithm));
    }
    return task.bucket == bucket ? absl::OkStatus() : Wrong(id, "has other tensors in its bucket");
  }

  absl::Status Wrong(const CollectiveStepId& id, const std::string& what) const {
    return absl::InternalError(absl::StrCat("the collective in step ", id.step, " of tensor '",
                                            graph_.tensor(id.tensor).name, "' ", what));
  }

  const Graph& graph_;
  std::map<CollectiveStepId, std::vector<const CollectiveTask*>> by_step_;
  size_t buckets_ = 0;
};

}  // namespace

absl::Status CheckCollectives(const Graph& graph, const Strategy& strategy,
                              const TaskGraph& tasks) {
  return CollectiveChecker(graph, tasks).Run(strategy);
}

}  // namespace partita
