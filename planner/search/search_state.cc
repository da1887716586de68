#include "planner/search/search_state.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/memory.h"
#include "graph/support/status_macros.h"
#include "planner/least_loads.h"

namespace partita {
namespace {

// Memory that an evaluation takes for each task: measured on 1,024 devices, with what it keeps.
constexpr int64_t kBytesOfTask = 20'000;
// Seconds of a trial from which on threads gain more than waking them and their own caches cost.
constexpr double kWorthThreads = 3e-4;
// A step that takes so many times the cutoff in the order of searches is not looked at in others: the best
// order of one strategy saves up to a tenth.
constexpr double kFarInOneOrder = 1.1;
// Weight of the last trials in the mean of their times.
constexpr double kLatest = 0.1;

}  // namespace

int SearchState::ThreadsOf(const SearchOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostTrials));
}

// Half of what is left of the host's memory may be taken, in which what is kept by now counts
// twice.
int SearchState::MostThreads() {
  if (most_tasks_ <= threads_for_tasks_) return most_threads_;
  threads_for_tasks_ = most_tasks_;
  const int64_t kept = problem_.evaluator.options().max_cached.value();
  const int64_t one = kBytesOfTask * most_tasks_ + 1;
  const int64_t available = AvailableMemory(UsableMemory()) / 2 - kept;
  most_threads_ = static_cast<int>(std::clamp<int64_t>(available / one, 1, kMostTrials));
  return most_threads_;
}

WorkerThreads& SearchState::threads() {
  if (threads_.count() > 1) threads_.SetMost(MostThreads());
  return threads_;
}

Evaluation SearchState::Evaluate(const SearchTrial& trial) const {
  const auto interrupted = [this] {
    return (starts_tried_ || has_best_) && (Stopped() || TimeIsUp());
  };
  if (problem_.in_best_order) return EvaluateInBestOrder(trial, interrupted);
  return problem_.evaluator.EvaluateBriefly(*trial.strategy, trial.cutoff, interrupted,
                                            problem_.bucket_bytes);
}

Evaluation SearchState::EvaluateInBestOrder(const SearchTrial& trial,
                                            const std::function<bool()>& interrupted) const {
  const Evaluator& evaluator = problem_.evaluator;
  const Nanos most = TimesOf(trial.cutoff, kFarInOneOrder);
  Evaluation best =
      evaluator.EvaluateBriefly(*trial.strategy, most, interrupted, problem_.bucket_bytes);
  if (!best.is_within()) return best;
  const auto joined = best.bucket_bytes > Bytes(0)
                          ? evaluator.WithBucketsUpTo(*trial.strategy, best.bucket_bytes)
                          : *trial.strategy;
  if (!joined.ok()) return best;
  Evaluation ordered = evaluator.EvaluateBrieflyInBestOrder(*joined);
  if (ordered.feasible() && ordered.time < best.time) {
    ordered.bucket_bytes = best.bucket_bytes;
    ordered.solved = best.solved;
    best = std::move(ordered);
  }
  if (best.time > trial.cutoff) best.peak.clear();
  return best;
}

Evaluation SearchState::Try(const Strategy& strategy, const std::string& origin, Nanos cutoff) {
  const SearchTrial trial{&strategy, &origin, cutoff};
  Evaluation evaluation = Evaluate(trial);
  Note(trial, evaluation);
  return evaluation;
}

int SearchState::ThreadsOfTrials() { return trial_seconds_ < kWorthThreads ? 1 : threads().most(); }

std::vector<Evaluation> SearchState::TryAll(std::span<const SearchTrial> trials) {
  std::vector<Evaluation> evaluations = EvaluateAll(trials);
  for (size_t k = 0; k < trials.size(); ++k) Note(trials[k], evaluations[k]);
  return evaluations;
}

std::vector<Evaluation> SearchState::EvaluateAll(std::span<const SearchTrial> trials,
                                                 absl::FunctionRef<void()> meanwhile) {
  std::vector<Evaluation> evaluations(trials.size());
  if (trials.empty()) {
    meanwhile();
    return evaluations;
  }
  const int most = ThreadsOfTrials();
  WorkerThreads& workers = threads();
  workers.SetMost(most);
  const double begin = Seconds();
  workers.ForEach(trials.size() + 1, [&](size_t k) {
    if (k == 0) return meanwhile();
    evaluations[k - 1] = Evaluate(trials[k - 1]);
  });
  const auto count = static_cast<double>(trials.size());
  const double each = (Seconds() - begin) * std::min(count, static_cast<double>(most)) / count;
  trial_seconds_ += kLatest * (each - trial_seconds_);
  return evaluations;
}

bool SearchState::TryEach(size_t count, const std::string& origin, const Batch& batch) {
  for (size_t begin = 0; begin < count;) {
    if (Done()) return false;
    const size_t end = begin + TrialsLeft(count - begin);
    std::vector<Strategy> proposals;
    for (; begin < end; ++begin) proposals.push_back(batch.make(begin));
    const Nanos cutoff = batch.cutoff();
    std::vector<SearchTrial> trials;
    for (const Strategy& proposal : proposals) trials.push_back({&proposal, &origin, cutoff});
    const std::vector<Evaluation> evaluations = TryAll(trials);
    for (size_t k = 0; k < evaluations.size(); ++k) {
      if (evaluations[k].verdict == Evaluation::Verdict::kInterrupted) return false;
      batch.take(proposals[k], evaluations[k]);
    }
  }
  return true;
}

bool SearchState::TryInPlaceOfBest(size_t count, absl::FunctionRef<Strategy(size_t)> make) {
  const auto cutoff = [this] { return best_time(); };
  const auto take = [](Strategy&, const Evaluation&) {};
  return TryEach(count, std::string(result_.origin), {make, cutoff, take});
}

void SearchState::Note(const SearchTrial& trial, const Evaluation& evaluation) {
  Count(evaluation);
  // Where the evaluation stopped early the peak is missing: it is no candidate for the best.
  if (evaluation.is_within()) Keep(*trial.strategy, *trial.origin, evaluation);
}

void SearchState::Count(const Evaluation& evaluation) {
  if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return;
  if (evaluation.verdict == Evaluation::Verdict::kInvalid) {
    invalid_ = evaluation.reason;
    return;
  }
  ++result_.evaluations;
  most_tasks_ = std::max(most_tasks_, evaluation.tasks);
  if (evaluation.verdict == Evaluation::Verdict::kOutOfMemory &&
      (nearest_miss_.empty() || evaluation.excess < smallest_excess_)) {
    nearest_miss_ = evaluation.reason;
    smallest_excess_ = evaluation.excess;
  }
}

void SearchState::Keep(const Strategy& strategy, const std::string& origin,
                       const Evaluation& evaluation) {
  NoteByOrigin(strategy, origin, evaluation.time);
  if (has_best_ && evaluation.time >= result_.evaluation.time) return;
  result_.best = strategy;
  result_.evaluation = evaluation;
  result_.origin = origin;
  result_.locally_optimal = false;
  has_best_ = true;
}

void SearchState::NoteByOrigin(const Strategy& strategy, const std::string& origin, Nanos time) {
  auto& found = result_.by_origin;
  const auto it = std::find_if(found.begin(), found.end(),
                               [&](const FoundStrategy& one) { return one.found.name == origin; });
  if (it == found.end()) {
    found.push_back({{origin, strategy}, time});
  } else if (time < it->time) {
    *it = {{origin, strategy}, time};
  }
}

absl::Status SearchState::NeedStarts() const {
  if (!problem_.starts.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("a search needs a strategy to start from");
}

absl::Status SearchState::TryStarts() {
  RETURN_IF_ERROR(NeedStarts());
  for (const NamedStrategy& start : problem_.starts) Try(start.strategy, start.name);
  starts_tried_ = true;
  return absl::OkStatus();
}

bool SearchState::Done() {
  if (result_.evaluations >= options_.evaluations) return true;
  if (problem_.bound.is_complete && has_best_ && best_time() <= problem_.bound.time()) return true;
  if (Stopped()) result_.interrupted = true;
  if (TimeIsUp()) result_.interrupted = true;
  return result_.interrupted;
}

SearchOptions SearchState::PartOfOptions(double part) const {
  SearchOptions options = options_;
  options.evaluations = static_cast<int64_t>(part * static_cast<double>(left()));
  if (options.time_limit_seconds > 0) {
    options.time_limit_seconds = std::max(1e-3, part * (options.time_limit_seconds - Seconds()));
  }
  options.progress = nullptr;
  return options;
}

void SearchState::CountAccepted(int start, const std::string& name, const std::string& move,
                                Nanos current) {
  ++result_.accepted;
  Tell(start, name, move, current);
}

void SearchState::TellStart(const std::string& name) { Tell(0, name, "start", best_time()); }

void SearchState::Tell(int start, const std::string& name, const std::string& move,
                       Nanos current) const {
  if (!options_.progress) return;
  options_.progress({result_.evaluations, start, name, move, current, result_.evaluation.time,
                     problem_.bound.time()});
}

absl::StatusOr<SearchResult> SearchState::Finish() {
  result_.seconds = Seconds();
  if (!has_best_) {
    if (Stopped()) {
      return InterruptedError(absl::StrCat("interrupted before a strategy that fits was found; ",
                                           result_.evaluations, " were tried"));
    }
    if (nearest_miss_.empty()) return absl::InvalidArgumentError(invalid_);
    const bool is_limited = problem_.evaluator.options().memory_limit > Bytes(0);
    return MemoryError(absl::StrCat("none of ", result_.evaluations,
                                    " strategies fits in memory. The nearest: ", nearest_miss_,
                                    ". Use more or larger devices, a smaller batch, or "
                                    "--microbatches",
                                    is_limited ? ", or raise --memory_limit" : ""));
  }
  return std::move(result_);
}

}  // namespace partita
