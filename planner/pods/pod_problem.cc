#include "planner/pods/pod_problem.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/expert/expert_strategies.h"
#include "planner/pods/pod_view.h"

namespace partita {
namespace {

// Operators that configurations are for, times devices of a pod: an evaluation of that many from
// nothing takes a few seconds.
constexpr int64_t kMostPartsOfPod = 25'000;

// How many times larger each size of pods is than the last.
constexpr int kSizeStep = 4;

template <class Value>
std::vector<Value> Repeated(const std::vector<Value>& first, int count) {
  std::vector<Value> all;
  all.reserve(first.size() * static_cast<size_t>(count));
  for (int k = 0; k < count; ++k) all.insert(all.end(), first.begin(), first.end());
  return all;
}

}  // namespace

int DevicesOfFirstNode(const DeviceTopology& topology) {
  int count = 1;
  while (count < topology.size() &&
         topology.device(DeviceId(count)).node == topology.device(DeviceId(0)).node) {
    ++count;
  }
  return count;
}

bool IsPodSize(const Evaluator& whole, int size) {
  const int devices = whole.topology().size();
  const auto anchors = static_cast<int64_t>(whole.graph().anchors().size());
  return devices % size == 0 && whole.graph().batch() % (devices / size) == 0 &&
         (size == 1 || anchors * size <= kMostPartsOfPod);
}

std::vector<int> PodSizes(const Evaluator& whole) {
  const int most = std::min(kMostDevicesSearched, whole.topology().size() / 2);
  std::vector<int> sizes;
  for (int size = std::min(most, DevicesOfFirstNode(whole.topology())); size > 0; --size) {
    if (!IsPodSize(whole, size)) continue;
    sizes.push_back(size);
    break;
  }
  for (int size = 1; size <= most; ++size) {
    const bool is_next = sizes.empty() || size >= kSizeStep * sizes.back();
    if (is_next && IsPodSize(whole, size)) sizes.push_back(size);
  }
  return sizes;
}

PodProblem::PodProblem(const Evaluator& whole, Graph graph, DeviceTopology pod,
                       std::shared_ptr<const PodSetting> setting)
    : whole_(whole), graph_(std::move(graph)), setting_(std::move(setting)) {
  Evaluator::Options options = whole.options();
  options.pods = setting_;
  // Beside the whole's.
  options.max_cached = Bytes(options.max_cached.value() / 2);
  evaluator_ = std::make_unique<const Evaluator>(graph_, pod, whole.model(), std::move(options));
}

absl::StatusOr<std::unique_ptr<PodProblem>> PodProblem::Create(const Evaluator& whole,
                                                               const GraphAt& graph_at, int size) {
  const Pods pods{size, whole.topology().size() / size};
  const int64_t of_pod = whole.graph().batch() / pods.count;
  ASSIGN_OR_RETURN(Graph graph, graph_at(of_pod));
  ASSIGN_OR_RETURN(Graph built, graph_at(of_pod * PodView::BuiltOf(pods)));
  ASSIGN_OR_RETURN(DeviceTopology pod, whole.topology().TakeDevices(size));
  auto setting =
      std::make_shared<const PodSetting>(PodSetting{whole.topology(), pods, std::move(built)});
  std::unique_ptr<PodProblem> problem(
      new PodProblem(whole, std::move(graph), std::move(pod), std::move(setting)));
  RETURN_IF_ERROR(problem->evaluator().status());
  RETURN_IF_ERROR(problem->OfAllPods(SingleDevice(problem->graph(), DeviceId(0))).status());
  return problem;
}

SearchProblem PodProblem::Problem(bool has_fewer) const {
  SearchProblem problem{*evaluator_, SearchSpace(graph_, pods().devices),
                        ExpertStartsOfPod(graph_, evaluator_->topology())};
  if (!has_fewer) return problem;
  problem.on_fewer = ExpertsOnFewer(graph_, evaluator_->topology());
  return problem;
}

absl::StatusOr<Strategy> PodProblem::OfAllPods(const Strategy& strategy) const {
  return StrategyOfPods(graph_, whole_.graph(), strategy, pods());
}

Evaluation PodProblem::OfAllDevices(Evaluation first) const {
  const int count = pods().count;
  first.tasks *= count;
  first.peak = Repeated(first.peak, count);
  const auto own = static_cast<size_t>(pods().devices);
  if (!first.received.empty()) {
    first.received.resize(own);
    first.received = Repeated(first.received, count);
  }
  if (!first.use.empty()) {
    first.use.resize(own);
    first.use = Repeated(first.use, count);
  }
  first.sources.measured *= count;
  first.sources.interpolated *= count;
  first.sources.roofline *= count;
  first.sources.unsteady *= count;
  return first;
}

}  // namespace partita
