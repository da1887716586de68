#include "planner/pods/pod_search.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "planner/collective_choice.h"
#include "planner/expert/expert_strategies.h"
#include "planner/search/improve_groups.h"
#include "planner/search/improve_stages.h"
#include "planner/space/recurrent_layers.h"

namespace partita {
namespace {

// Devices from which on parts of them are searched: on fewer what all do is found as fast.
constexpr int kLeastOfParts = 64;
// Pods of two nodes are searched where there are so many; what fewer do is found as fast.
constexpr int kLeastPairsOfNodes = 4;
// Part of what is left of the budget that goes to pods that larger ones follow: those take several
// times as long to evaluate, and go on from what was found.
constexpr double kPartOfSmaller = 2.0 / 3;
// Part of each size's evaluations that goes to steps in their best orders, for models with recurrent
// layers, whose orders differ most; others end a little behind so. Searches in them from the start end
// behind those that go on from what is best in one: what a strategy takes by its luckiest rule tells less
// of those near it.
constexpr double kPartOfOrders = 0.5;

SearchFunction SearchFor(PodScope::Kind kind) {
  switch (kind) {
    case PodScope::Kind::kNodes:
      return SearchAuto;
    case PodScope::Kind::kTwoNodes:
      return SearchStages;
    case PodScope::Kind::kParts:
      return SearchStarts;
  }
  return SearchAuto;
}

}  // namespace

std::string NameForPods(const std::string& name, Pods pods) {
  constexpr absl::string_view kForPods = " for pods of ";
  return absl::StrContains(name, kForPods) ? name : absl::StrCat(name, kForPods, pods.devices);
}

bool PodSearch::IsOver() const {
  return IsSet(options_.stop) || clock_.IsPast(1) || evaluations_ >= options_.evaluations;
}

std::vector<int> PodSearch::Sizes() const {
  if (scope_.kind == PodScope::Kind::kNodes) return PodSizes(whole_);
  const int devices = whole_.topology().size(), node = DevicesOfFirstNode(whole_.topology());
  const bool of_parts = scope_.kind == PodScope::Kind::kParts;
  const int size = of_parts ? devices / scope_.parts : 2 * node;
  const bool are_many = of_parts ? devices >= kLeastOfParts && devices % scope_.parts == 0
                                 : devices >= kLeastPairsOfNodes * size;
  const bool goes = are_many && size > node && IsPodSize(whole_, size);
  return goes ? std::vector<int>{size} : std::vector<int>();
}

absl::Status PodSearch::Run() {
  const std::vector<int> sizes = Sizes();
  status_ = DeclinedError(absl::StrCat(
      "batch ", whole_.graph().batch(), " has no equal shares for pods of ",
      whole_.topology().size(), " devices. Try a batch that is a multiple of the devices"));
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (k > 0 && (IsOver() || is_far_behind_)) break;
    RETURN_IF_ERROR(SearchSize(sizes[k], /*is_last=*/k + 1 == sizes.size()));
  }
  return pods_ == nullptr ? status_ : absl::OkStatus();
}

// Sizes that do not go are left out: status_ says why as long as none has gone.
absl::Status PodSearch::SearchSize(int size, bool is_last) {
  auto pods = PodProblem::Create(whole_, graph_at_, size);
  if (!pods.ok()) {
    status_ = pods.status();
    return absl::OkStatus();
  }
  SearchProblem problem = (*pods)->Problem(/*has_fewer=*/is_last);
  KeepStarts(problem.starts);
  if (IsFarBehind(problem)) {
    is_far_behind_ = true;
    return absl::OkStatus();
  }
  problem.is_part = is_part_;
  problem.bucket_bytes = is_part_ ? scope_.bucket_bytes : BucketBytesFor(**pods);
  if (pods_ != nullptr) {
    ASSIGN_OR_RETURN(Strategy best, Enlarged(**pods));
    problem.starts.insert(problem.starts.begin(),
                          {NameForPods(found_.result.origin, pods_->pods()), std::move(best)});
    problem.found_starts = 1;
  }
  absl::StatusOr<OfSize> found = SearchPart(problem, is_last ? 1 : kPartOfSmaller);
  if (!found.ok()) {
    status_ = found.status();
    return pods_ == nullptr && IsSet(options_.stop) ? status_ : absl::OkStatus();
  }
  if (pods_ == nullptr || found->time < found_.time) {
    Keep(*std::move(pods), std::move(problem), *std::move(found));
  }
  return absl::OkStatus();
}

absl::StatusOr<PodSearch::OfSize> PodSearch::SearchPart(const SearchProblem& problem, double part) {
  const Evaluator& evaluator = problem.evaluator;
  const bool has_orders = !is_part_ && search_ == SearchAuto && evaluator.options().any_priority &&
                          !RecurrentLayers(evaluator.graph()).empty();
  const double of_orders = has_orders ? kPartOfOrders : 0;
  OfSize found;
  ASSIGN_OR_RETURN(found.result, search_(problem, OptionsOf(part * (1 - of_orders))));
  evaluations_ += found.result.evaluations;
  found.time = found.result.evaluation.time;
  // The same part of what was left before.
  const double rest = part * of_orders / (1 - part * (1 - of_orders));
  if (has_orders && !IsOver()) GoOnInBestOrder(problem, rest, found);
  return found;
}

void PodSearch::GoOnInBestOrder(const SearchProblem& problem, double part, OfSize& found) {
  SearchResult& result = found.result;
  SearchProblem ordered = problem;
  ordered.in_best_order = true;
  // What smaller pods found may be better in its best order.
  ordered.starts.resize(problem.found_starts);
  ordered.starts.push_back({result.origin, result.best});
  absl::StatusOr<SearchResult> better = SearchGroups(ordered, OptionsOf(part));
  if (!better.ok()) return;
  evaluations_ += better->evaluations;
  found.time = better->evaluation.time;
  result.interrupted |= better->interrupted;
  if (better->best == result.best) return;
  result.best = std::move(better->best);
  result.origin = std::move(better->origin);
  result.evaluation =
      problem.evaluator.EvaluateBriefly(result.best, kNoCutoff, nullptr, problem.bucket_bytes);
  result.accepted += better->accepted;
  result.walked_all = result.locally_optimal = false;
}

Bytes PodSearch::BucketBytesFor(const PodProblem& pods) const {
  const Evaluator& evaluator = pods.evaluator();
  const auto strategy = DataParallel(evaluator.graph(), evaluator.topology());
  if (!strategy.ok()) return Bytes(0);
  const auto stopped = [this] { return IsOver(); };
  const Evaluation apart = evaluator.EvaluateBriefly(*strategy, kNoCutoff, stopped);
  if (!apart.feasible()) return Bytes(0);
  const BucketedStrategy joined =
      WithBuckets(evaluator, BucketedStrategy{*strategy, apart}, stopped);
  return BucketBytesForSearches(joined, apart.time);
}

bool PodSearch::IsFarBehind(const SearchProblem& problem) {
  const Nanos most = scope_.most_of_starts;
  if (most == kNoCutoff) return false;
  const bool of_nodes = scope_.kind == PodScope::Kind::kNodes;
  const Bytes bucket_bytes = of_nodes ? Bytes(0) : scope_.bucket_bytes;
  for (const NamedStrategy& start : problem.starts) {
    if (IsOver()) break;
    const Evaluation evaluation = problem.evaluator.EvaluateBriefly(
        start.strategy, most, [this] { return IsOver(); }, bucket_bytes);
    if (evaluation.is_within() && evaluation.time <= most) return false;
  }
  return true;
}

// Experts for pods have variants with longer names.
void PodSearch::KeepStarts(std::vector<NamedStrategy>& starts) const {
  std::vector<NamedStrategy> kept;
  for (const NamedStrategy& start : starts) {
    const auto is_of = [&](const std::string& name) { return absl::StartsWith(start.name, name); };
    if (std::any_of(scope_.starts.begin(), scope_.starts.end(), is_of)) kept.push_back(start);
  }
  if (!kept.empty()) starts = std::move(kept);
}

void PodSearch::Keep(std::unique_ptr<PodProblem> pods, SearchProblem problem, OfSize found) {
  problem_.emplace(std::move(problem));
  pods_ = std::move(pods);
  found_ = std::move(found);
  auto of_all = pods_->OfAllPods(found_.result.best);
  if (!of_all.ok()) return;
  strategies_.push_back({NameForPods(found_.result.origin, pods_->pods()), *std::move(of_all)});
}

// The best strategy of smaller pods for those that are several of them.
absl::StatusOr<Strategy> PodSearch::Enlarged(const PodProblem& larger) const {
  return StrategyOfPods(pods_->graph(), larger.graph(), found_.result.best,
                        {pods_->pods().devices, larger.pods().devices / pods_->pods().devices});
}

SearchOptions PodSearch::OptionsOf(double part) const {
  SearchOptions options = options_;
  const auto left = static_cast<double>(options.evaluations - evaluations_);
  options.evaluations = std::max<int64_t>(1, static_cast<int64_t>(part * left));
  options.time_limit_seconds = part * clock_.LeftBut(0);
  return options;
}

void OfferPods(const GraphAt& graph_at, SearchProblem& problem) {
  const Evaluator& whole = problem.evaluator;
  if (whole.topology().size() < kLeastDevicesOfPods) return;
  problem.by_pods = [&whole, graph_at](const SearchOptions& options, const PodScope& scope) {
    PodSearch pods(whole, graph_at, SearchFor(scope.kind), options, scope);
    SearchProblem::OfPods found;
    if (pods.Run().ok()) found.strategies = pods.TakeStrategies();
    found.evaluations = pods.evaluations();
    found.are_far_behind = pods.is_far_behind();
    return found;
  };
}

}  // namespace partita
