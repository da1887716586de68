#include "graph/parallel/plan_collectives.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

void SetStep(const Graph& graph, const CollectiveStepId& id, proto::CollectiveStep& message) {
  message.set_tensor(graph.tensor(id.tensor).name);
  message.set_step(id.step);
}

// Steps of a tensor that follow each other are one entry.
void AddChoice(const Graph& graph, const CollectiveStepId& id, proto::AlgorithmPlan& algorithm) {
  if (!algorithm.collective().empty()) {
    proto::CollectiveStep& before = *algorithm.mutable_collective()->rbegin();
    const int32_t last = std::max(before.step(), before.last());
    if (last + 1 == id.step && before.tensor() == graph.tensor(id.tensor).name) {
      return before.set_last(id.step);
    }
  }
  SetStep(graph, id, *algorithm.add_collective());
}

absl::Status BadRange(const proto::CollectiveStep& step, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the plan has collectives ", step.step(), " to ",
                                                 step.last(), " of tensor '", step.tensor(),
                                                 "': ", why));
}

// A range of collectives behind so many choices.
absl::Status CheckRange(const proto::CollectiveStep& step, size_t choices) {
  if (step.last() == 0) return absl::OkStatus();
  if (step.step() < 0 || step.last() <= step.step()) return BadRange(step, "wanted a later last");
  const int64_t more = int64_t{step.last()} - step.step();
  if (more + static_cast<int64_t>(choices) <= kMostChoices) return absl::OkStatus();
  return BadRange(step, absl::StrCat("wanted at most ", kMostChoices, " collectives in all"));
}

}  // namespace

// Collectives by algorithm, in the order of the algorithms' first ones.
void SetCollectives(const Graph& graph, const Strategy& strategy, proto::Plan& message) {
  absl::flat_hash_map<std::string, proto::AlgorithmPlan*> by_name;
  for (const AlgorithmChoice& choice : strategy.algorithms) {
    proto::AlgorithmPlan*& algorithm = by_name[choice.algorithm];
    if (algorithm == nullptr) {
      algorithm = message.add_algorithm();
      algorithm->set_name(choice.algorithm);
    }
    AddChoice(graph, choice.collective, *algorithm);
  }
  for (const Bucket& bucket : strategy.buckets) {
    proto::BucketPlan& plan = *message.add_bucket();
    for (const CollectiveStepId& member : bucket.members) {
      SetStep(graph, member, *plan.add_member());
    }
    plan.set_algorithm(bucket.algorithm);
  }
}

absl::Status ReadCollectives(const proto::Plan& message, const Graph& graph, Strategy& strategy) {
  absl::flat_hash_map<std::string, TensorId> tensors;
  for (const Tensor& tensor : graph.tensors()) tensors.emplace(tensor.name, tensor.id);
  const auto step_of = [&](const proto::CollectiveStep& step) -> absl::StatusOr<CollectiveStepId> {
    const auto it = tensors.find(step.tensor());
    if (it != tensors.end()) return CollectiveStepId{it->second, step.step()};
    return absl::InvalidArgumentError(absl::StrCat("the plan has a collective of tensor '",
                                                   step.tensor(), "', which the model lacks"));
  };
  for (const proto::AlgorithmPlan& algorithm : message.algorithm()) {
    for (const proto::CollectiveStep& step : algorithm.collective()) {
      ASSIGN_OR_RETURN(CollectiveStepId id, step_of(step));
      RETURN_IF_ERROR(CheckRange(step, strategy.algorithms.size()));
      const int32_t last = step.last() == 0 ? step.step() : step.last();
      for (; id.step < last; ++id.step) strategy.algorithms.push_back({id, algorithm.name()});
      strategy.algorithms.push_back({id, algorithm.name()});
    }
  }
  if (!std::ranges::is_sorted(strategy.algorithms, {}, &AlgorithmChoice::collective)) {
    std::ranges::stable_sort(strategy.algorithms, {}, &AlgorithmChoice::collective);
  }
  for (const proto::BucketPlan& plan : message.bucket()) {
    Bucket& bucket = strategy.buckets.emplace_back();
    for (const proto::CollectiveStep& member : plan.member()) {
      if (member.last() != 0) return BadRange(member, "members of buckets are single steps");
      ASSIGN_OR_RETURN(bucket.members.emplace_back(), step_of(member));
    }
    bucket.algorithm = plan.algorithm();
  }
  return absl::OkStatus();
}

}  // namespace partita
