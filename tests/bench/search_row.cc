#include "tests/bench/search_row.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/collective_choice.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "planner/lower_bound.h"
#include "planner/pods/plan_by_pods.h"
#include "planner/pods/pod_problem.h"
#include "planner/pods/pod_search.h"
#include "planner/search/search_algorithm.h"
#include "planner/space/search_space.h"
#include "tests/bench/processor_time.h"
#include "tests/bench/proposal_chain.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using Clock = std::chrono::steady_clock;

// Shares of a row's time at whose ends its parts give way to the next.
constexpr double kStartsEnd = 0.2, kBoundEnd = 0.3, kWarmEnd = 0.4, kEarlyEnd = 0.5,
                 kCompleteEnd = 0.6, kSearchEnd = 0.95;
constexpr double kNear = 1.01;  // of the best known step

double AsDouble(Nanos time) { return static_cast<double>(time.value()); }

class SearchRowBench {
 public:
  SearchRowBench(const BestKnownCase& of, const SearchRowOptions& options, const BestKnown& known,
                 const std::function<void(const std::string&, double)>& figure,
                 const std::function<void(const std::string&)>& phase)
      : of_(of), options_(options), known_(known), figure_(figure), phase_(phase) {}

  void Run() {
    phase_("model");
    graph_ = std::make_unique<Graph>(GraphAtBatch(of_.batch));
    machine_ = std::make_shared<const Machine>(Ok(FindMachine(of_.machine, of_.devices)));
    costs_ = MakeSyntheticCostModel(machine_);
    whole_ = std::make_unique<const Evaluator>(*graph_, machine_->topology, *costs_);
    if (of_.devices > options_.whole_devices) FindPods();
    Starts();
    Bound();
    if (options_.proposals > 0) Proposals();
    if (options_.evaluations > 0) Searches();
  }

 private:
  Graph GraphAtBatch(int64_t batch) const {
    return Ok(BuildTrainingGraph(Ok(MakeZooModel(of_.model, batch)), {}));
  }
  // Finds the smallest pods that go, which stand for a large machine.
  void FindPods() {
    for (int size : PodSizes(*whole_)) {
      auto pods = PodProblem::Create(*whole_, graph_at_, size);
      if (pods.ok()) pods_ = *std::move(pods);
      if (pods_ != nullptr) break;
    }
    if (pods_ != nullptr) figure_("pod_devices", pods_->pods().devices);
  }
  // With empty caches.
  std::unique_ptr<const Evaluator> FreshEvaluator() const {
    const Evaluator& like = pods_ == nullptr ? *whole_ : pods_->evaluator();
    return std::make_unique<const Evaluator>(like.graph(), like.topology(), *costs_,
                                             like.options());
  }

  struct Trace {
    std::vector<std::pair<double, Nanos>> points;  // seconds and the best so far
    double end = 0;                                // seconds
  };

  double Elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  std::function<bool()> LateAfter(double share) const {
    return [this, end = share * options_.seconds] { return Elapsed() > end; };
  }

  void Starts() {
    phase_("experts");
    const double begin = ProcessorSeconds();
    const auto fresh = FreshEvaluator();
    const Evaluator& evaluator = *fresh;
    starts_ = ExpertStarts(evaluator.graph(), evaluator.topology());
    const std::function<bool()> late = LateAfter(kStartsEnd);
    const Nanos data_parallel = DataParallel(evaluator, late);
    for (const NamedStrategy& start : starts_) {
      // Only the best counts.
      const Nanos cutoff = expert_ == Nanos(0) ? kNoCutoff : expert_;
      const Evaluation evaluation =
          evaluator.EvaluateBriefly(start.strategy, cutoff, late, bucket_bytes_);
      if (!evaluation.is_within()) continue;
      if (expert_ == Nanos(0) || evaluation.time < expert_) expert_ = evaluation.time;
    }
    // Not all in time: the best is not known.
    if (late()) expert_ = Nanos(0);
    figure_("starts_s", ProcessorSeconds() - begin);
    figure_("data_parallel_ns", AsDouble(data_parallel));
    figure_("expert_ns", AsDouble(expert_));
    figure_("base_ns", AsDouble(base_));
  }

  // The time of data parallelism, with buckets; 0: it does not fit, or is not known in time.
  Nanos DataParallel(const Evaluator& evaluator, const std::function<bool()>& late) {
    const auto it = std::find_if(starts_.begin(), starts_.end(), [](const NamedStrategy& start) {
      return start.name == "data_parallel";
    });
    if (it == starts_.end()) return Nanos(0);
    const Evaluation apart = evaluator.EvaluateBriefly(it->strategy, kNoCutoff, late);
    base_ = apart.time;
    if (!apart.feasible()) return Nanos(0);
    const BucketedStrategy bucketed =
        WithBuckets(evaluator, BucketedStrategy{it->strategy, apart}, late);
    bucket_bytes_ = BucketBytesForSearches(bucketed, apart.time);
    return bucketed.evaluation.time;
  }

  void Bound() {
    phase_("lower bound");
    const double begin = ProcessorSeconds();
    bound_ = LowerBoundOf(*whole_, LateAfter(kBoundEnd));
    figure_("bound_s", ProcessorSeconds() - begin);
    figure_("bound_ns", AsDouble(bound_.time()));
  }

  void Proposals() {
    phase_("early exit");
    const auto own = FreshEvaluator();
    const Evaluator& evaluator = *own;
    std::function<bool()> late = LateAfter(kEarlyEnd);
    ProposalChain chain(evaluator, starts_, options_.beta, late);
    if (!chain.has_start()) return;
    const auto other = pods_ == nullptr ? nullptr : FreshEvaluator();
    const std::function<bool()> warm = LateAfter(kWarmEnd);
    chain.WarmUp(options_.warm_up, warm);
    while (chain.early_exit().size() < static_cast<size_t>(options_.proposals) && !late()) {
      chain.Step(other.get());
    }
    if (chain.early_exit().empty()) return;
    figure_("proposals", static_cast<double>(chain.early_exit().size()));
    figure_("early_mean_us", chain.early_exit().Mean());
    figure_("early_median_us", chain.early_exit().Quantile(0.5));
    figure_("early_p99_us", chain.early_exit().Quantile(0.99));
    figure_("accepted", chain.accepted());
    figure_("bounded", chain.bounded());
    figure_("cached", chain.cached());
    phase_("complete");
    // Has none of the proposals yet, as at their first evaluation.
    const auto fresh = FreshEvaluator();
    late = LateAfter(kCompleteEnd);
    chain.Complete(*fresh);
    if (chain.complete().empty()) return;
    figure_("complete_mean_us", chain.complete().Mean());
    figure_("complete_median_us", chain.complete().Quantile(0.5));
    figure_("tasks", chain.tasks());
  }

  void Searches() {
    for (int k = 0; k < options_.seeds; ++k) {
      const double left = kSearchEnd * options_.seconds - Elapsed();
      if (left <= 0) break;
      phase_("search");
      Search(options_.seed + static_cast<uint64_t>(k), left);
    }
    if (pods_ == nullptr) WarmSearches();
  }

  SearchProblem ProblemOf(const Evaluator& evaluator) const {
    SearchProblem problem{evaluator, SearchSpace(*graph_, of_.devices), starts_, bound_,
                          ExpertsOnFewer(*graph_, machine_->topology)};
    OfferPods(graph_at_, problem);
    problem.bucket_bytes = bucket_bytes_;
    return problem;
  }

  void Search(uint64_t seed, double seconds) {
    // A search as a user's first: with empty caches.
    const Evaluator evaluator(*graph_, machine_->topology, *costs_, whole_->options());
    const SearchProblem problem = ProblemOf(evaluator);
    Trace trace;
    const double begin = ProcessorSeconds();
    SearchOptions search{.evaluations = options_.evaluations,
                         .seed = seed,
                         .time_limit_seconds = seconds,
                         .threads = 1};
    search.progress = [&](const SearchProgress& progress) {
      if (!trace.points.empty() && trace.points.back().second <= progress.best) return;
      trace.points.emplace_back(ProcessorSeconds() - begin, progress.best);
    };
    const auto found = pods_ == nullptr ? Ok(SearchNamed(options_.search))(problem, search)
                                        : SearchPods(evaluator, search);
    trace.end = ProcessorSeconds() - begin;
    if (!found.ok()) {
      phase_(absl::StrCat("search: ", found.status().message()));
      return;
    }
    trace.points.emplace_back(trace.end, found->evaluation.time);
    traces_.push_back(std::move(trace));
    if (best_ == Nanos(0) || found->evaluation.time < best_) {
      best_ = found->evaluation.time;
      best_strategy_ = found->best;
      figure_("step_ns", AsDouble(best_));
      figure_("step_seed", static_cast<double>(seed));
    }
    if (found->interrupted) figure_("interrupted", 1);
    Report();
  }

  void WarmSearches() {
    Nanos fastest = best_;
    for (size_t k = 0; k < options_.warm_searches.size() && fastest > Nanos(0); ++k) {
      const double left = kSearchEnd * options_.seconds - Elapsed();
      if (left <= 0) break;
      const std::string& name = options_.warm_searches[k];
      phase_(absl::StrCat("warm search: ", name));
      const Evaluator evaluator(*graph_, machine_->topology, *costs_, whole_->options());
      SearchProblem problem = ProblemOf(evaluator);
      problem.starts.insert(problem.starts.begin(), {"best so far", best_strategy_});
      problem.found_starts = 1;
      const SearchOptions search{.evaluations = options_.warm_evaluations,
                                 .seed = options_.seed,
                                 .time_limit_seconds = left,
                                 .threads = 1};
      auto found = Ok(SearchNamed(name))(problem, search);
      // It may find nothing, or say that it does not go for the problem.
      if (!found.ok() || found->evaluation.time >= fastest) continue;
      fastest = found->evaluation.time;
      best_strategy_ = std::move(found->best);
      figure_("warm_ns", AsDouble(fastest));
      figure_("warm_index", static_cast<double>(k));
    }
    warm_ = fastest;
    if (!traces_.empty()) Report();
  }

  absl::StatusOr<SearchResult> SearchPods(const Evaluator& whole, const SearchOptions& options) {
    PlanRequest request{.search = options_.search, .options = options};
    request.bound = bound_;
    request.graph_at = graph_at_;
    auto outcome = PlanByPods(whole, request);
    if (!outcome.ok()) return outcome.status();
    return std::move(outcome->search);
  }

  // All searches so far, beside what is known now.
  void Report() {
    Nanos known = std::min(known_.StepOf(of_, base_).value_or(best_), best_);
    if (warm_ > Nanos(0)) known = std::min(known, warm_);
    int near = 0;
    double near_seconds = 0, end = 0;
    for (const Trace& trace : traces_) {
      const auto point = std::find_if(
          trace.points.begin(), trace.points.end(),
          [&](const auto& one) { return AsDouble(one.second) <= kNear * AsDouble(known); });
      near += point != trace.points.end();
      if (point != trace.points.end()) near_seconds = std::max(near_seconds, point->first);
      end = std::max(end, trace.end);
    }
    figure_("known_ns", AsDouble(known));
    figure_("seeds", static_cast<double>(traces_.size()));
    figure_("near_seeds", near);
    if (near > 0) figure_("near_s", near_seconds);
    figure_("end_s", end);
  }

  const BestKnownCase& of_;
  const SearchRowOptions& options_;
  const BestKnown& known_;
  const std::function<void(const std::string&, double)>& figure_;
  const std::function<void(const std::string&)>& phase_;
  const Clock::time_point begin_ = Clock::now();
  std::unique_ptr<Graph> graph_;
  std::shared_ptr<const Machine> machine_;
  std::unique_ptr<const CostModel> costs_;
  std::unique_ptr<const Evaluator> whole_;
  const GraphAt graph_at_ = [this](int64_t batch) { return GraphAtBatch(batch); };
  std::unique_ptr<PodProblem> pods_;  // null for machines that are searched as a whole
  std::vector<NamedStrategy> starts_;
  LowerBound bound_;
  Nanos expert_, base_, best_;
  Nanos warm_;  // the best of the warm searches, too
  Strategy best_strategy_;
  Bytes bucket_bytes_{0};  // SearchProblem::bucket_bytes
  std::vector<Trace> traces_;
};

}  // namespace

void MeasureSearchRow(const BestKnownCase& of, const SearchRowOptions& options,
                      const BestKnown& known,
                      const std::function<void(const std::string&, double)>& figure,
                      const std::function<void(const std::string&)>& phase) {
  SearchRowBench(of, options, known, figure, phase).Run();
}

}  // namespace partita
