#include "planner/search/walk.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {

int DevicesOf(const Graph& graph, const Strategy& strategy) {
  size_t devices = 0;
  for (OpId anchor : graph.anchors()) {
    for (DeviceId device : strategy.configs[anchor.index()].devices) {
      devices = std::max(devices, device.index() + 1);
    }
  }
  return static_cast<int>(devices);
}

WalkPoint PointOf(std::string name, Strategy strategy, const Evaluation& evaluation,
                  const Evaluator& evaluator) {
  WalkPoint point{std::move(name), std::move(strategy), evaluation.time};
  if (evaluation.verdict != Evaluation::Verdict::kOutOfMemory) return point;
  for (size_t d = 0; d < evaluation.peak.size(); ++d) {
    const Bytes memory = evaluator.MemoryOf(DeviceId(static_cast<int32_t>(d)));
    if (evaluation.peak[d] <= memory) continue;
    point.excess_memory += static_cast<double>((evaluation.peak[d] - memory).value()) /
                           std::max(1.0, static_cast<double>(memory.value()));
  }
  return point;
}

namespace {

// Takes a changed strategy that is faster than the point and the fastest so far.
void TakeFaster(Strategy changed, const Evaluation& evaluation, const WalkPoint& point,
                const SearchProblem& problem, Fastest& fastest) {
  const Nanos least = fastest.point.has_value() ? fastest.point->time : point.time;
  if (!evaluation.is_within() || evaluation.time >= least) return;
  fastest.point = PointOf(point.name, std::move(changed), evaluation, problem.evaluator);
}

}  // namespace

Fastest FastestOf(size_t count, absl::FunctionRef<Strategy(size_t number)> make,
                  const WalkPoint& point, const SearchProblem& problem, SearchState& state) {
  Fastest fastest;
  const auto cutoff = [&] { return fastest.point.has_value() ? fastest.point->time : point.time; };
  const auto take = [&](Strategy& changed, const Evaluation& evaluation) {
    TakeFaster(std::move(changed), evaluation, point, problem, fastest);
  };
  fastest.goes_on = state.TryEach(count, point.name, {make, cutoff, take});
  return fastest;
}

Fastest FastestOfEvaluated(absl::FunctionRef<Strategy(size_t number)> make,
                           std::span<const Evaluation> evaluations, const WalkPoint& point,
                           const SearchProblem& problem, SearchState& state) {
  Fastest fastest;
  for (size_t k = 0; k < evaluations.size(); ++k) {
    const Evaluation& evaluation = evaluations[k];
    if (state.Done() || evaluation.verdict == Evaluation::Verdict::kInterrupted) {
      fastest.goes_on = false;
      break;
    }
    state.Count(evaluation);
    if (!evaluation.is_within()) continue;
    Strategy strategy = make(k);
    state.Keep(strategy, point.name, evaluation);
    TakeFaster(std::move(strategy), evaluation, point, problem, fastest);
  }
  return fastest;
}

bool AddStart(const SearchProblem& problem, NamedStrategy start, Nanos cutoff, SearchState& state,
              std::vector<WalkPoint>& points) {
  const Nanos before = state.to_beat();
  const Evaluation evaluation = state.Try(start.strategy, start.name, cutoff);
  if (state.to_beat() < before) state.TellStart(start.name);
  if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return false;
  if (evaluation.verdict == Evaluation::Verdict::kInvalid) return true;
  if (evaluation.is_beyond()) return true;
  points.push_back(
      PointOf(std::move(start.name), std::move(start.strategy), evaluation, problem.evaluator));
  return true;
}

namespace {

// The best starts are looked for on fewer devices.
constexpr size_t kStartsOnFewer = 2;
// All starts are looked for on no more devices than these.
constexpr int kFewDevices = 64;
// Devices from which on starts are put off that are behind on fewer: on few they take no time. What
// takes less than so many times the best is not behind.
constexpr int kManyDevices = 16;
constexpr double kNotBehind = 1.25;

// How many times longer a step may become on the way into memory. As much longer than the fastest
// start is far behind where none fits: the tasks of a strategy that is much slower may take more
// memory than there is to search.
constexpr int64_t kMostToFit = 3;

// The time from which on a start is far behind those before it.
Nanos FarBehind(const SearchState& state, const std::vector<WalkPoint>& points, double most) {
  if (state.has_best()) return TimesOf(state.best_time(), most);
  if (points.empty()) return kNoCutoff;
  const auto fastest =
      std::min_element(points.begin(), points.end(),
                       [](const WalkPoint& a, const WalkPoint& b) { return a.time < b.time; });
  return fastest->time * kMostToFit;
}

std::string NameOn(const std::string& start, int devices) {
  return absl::StrCat(start, " on ", devices, devices == 1 ? " device" : " devices");
}

// Starts on fewer devices.
class StartsOnFewer {
 public:
  // `most`: as of StartRules.
  StartsOnFewer(const SearchProblem& problem, SearchState& state, std::vector<WalkPoint>& points,
                double most)
      : problem_(problem), state_(state), points_(points), most_(most) {}

  // All, on a quarter of the devices, a sixteenth, and so on, where these are few. The fewest first:
  // they have few tasks, and what is far behind them on all devices is soon given up.
  void AddFew() {
    std::vector<int> counts;
    for (int devices = problem_.space.devices() / kFewerDevices; devices > 0;
         devices /= kFewerDevices) {
      if (devices <= kFewDevices) counts.push_back(devices);
    }
    std::reverse(counts.begin(), counts.end());
    for (int devices : counts) {
      const size_t known = points_.size();
      for (size_t k : Order()) {
        const std::string& name = problem_.starts[k].name;
        if (!IsBehind(name)) TryOn(name, devices);
      }
      FindNear(known, devices);
    }
  }

  // Whether a start is behind others on a quarter of the devices that are looked at, or not known there.
  bool IsBehind(const std::string& name) const {
    return problem_.space.devices() >= kManyDevices && !near_.empty() && !near_.contains(name);
  }

  // The problem's starts in the order in which they are tried: those that others found, those that are
  // near the best on fewer devices, the best first, so that what is far behind is soon given up, and the
  // others.
  std::vector<size_t> Order() const {
    std::vector<size_t> order(problem_.starts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto place = [this](size_t k) {
      const auto near = near_.find(problem_.starts[k].name);
      return k < problem_.found_starts ? Nanos(0) : near == near_.end() ? kNoCutoff : near->second;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return place(a) < place(b); });
    return order;
  }

  // The starts that are not behind.
  std::vector<std::string> NotBehind() const {
    std::vector<std::string> names;
    for (const NamedStrategy& start : problem_.starts) {
      if (!IsBehind(start.name)) names.push_back(start.name);
    }
    return names;
  }

  // The best ones on half of the devices, a quarter, and so on, as long as that is faster.
  void AddOfBest() {
    std::stable_sort(points_.begin(), points_.end());
    std::vector<WalkPoint> best;
    for (const WalkPoint& point : points_) {
      const bool is_start =
          std::any_of(problem_.starts.begin(), problem_.starts.end(),
                      [&](const NamedStrategy& start) { return start.name == point.name; });
      if (is_start && best.size() < kStartsOnFewer) best.push_back(point);
    }
    for (const WalkPoint& start : best) AddWhileFaster(start);
  }

 private:
  // Finds the starts that are near the best on so many devices: those points from `first` on. On one
  // device there is one start.
  void FindNear(size_t first, int devices) {
    const auto points = std::span(points_).subspan(first);
    const auto best = std::min_element(points.begin(), points.end());
    near_.clear();
    if (devices == 1 || best == points.end() || best->excess_memory > 0) return;
    for (const NamedStrategy& start : problem_.starts) {
      const std::string on = NameOn(start.name, devices);
      for (const WalkPoint& point : points) {
        const bool is_near =
            point.excess_memory == 0 && point.time < TimesOf(best->time, kNotBehind);
        if (point.name == on && is_near) near_.emplace(start.name, point.time);
      }
    }
  }

  void AddWhileFaster(WalkPoint last) {
    const std::string name = last.name;
    for (int devices = problem_.space.devices() / 2; devices > 0; devices /= 2) {
      const size_t known = points_.size();
      TryOn(name, devices);
      if (points_.size() == known || !(points_.back() < last)) return;
      last = points_.back();
    }
  }

  void TryOn(const std::string& name, int devices) {
    if (ended_ || state_.Done()) return;
    std::string on = NameOn(name, devices);
    if (!tried_.insert(on).second) return;
    std::optional<Strategy> strategy = problem_.on_fewer(name, devices);
    if (!strategy.has_value()) return;
    ended_ = !AddStart(problem_, {std::move(on), *std::move(strategy)},
                       FarBehind(state_, points_, most_), state_, points_);
  }

  const SearchProblem& problem_;
  SearchState& state_;
  std::vector<WalkPoint>& points_;
  const double most_;
  std::set<std::string> tried_;
  // Starts near the best on the most devices so far, and their times there.
  std::map<std::string, Nanos> near_;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::vector<WalkPoint>> EvaluateStarts(const SearchProblem& problem,
                                                      const SearchOptions& options,
                                                      SearchState& state, const StartRules& rules) {
  RETURN_IF_ERROR(state.NeedStarts());
  std::vector<WalkPoint> starts;
  StartsOnFewer on_fewer(problem, state, starts, rules.most);
  const bool tries_fewer = problem.on_fewer && problem.space.whole();
  if (tries_fewer) on_fewer.AddFew();
  const bool found = rules.look && rules.look(on_fewer.NotBehind(), starts);
  bool goes_on = true;
  for (size_t k : on_fewer.Order()) {
    if (!goes_on) break;
    const NamedStrategy& start = problem.starts[k];
    const bool is_expert = k >= problem.found_starts;
    if (rules.put_off != nullptr && is_expert && (found || on_fewer.IsBehind(start.name))) {
      rules.put_off->push_back(start);
      continue;
    }
    goes_on = AddStart(problem, start, FarBehind(state, starts, rules.most), state, starts);
  }
  state.StartsAreTried();
  if (goes_on && tries_fewer && !found) on_fewer.AddOfBest();
  std::mt19937_64 random(options.seed);
  const int random_starts = rules.has_random && problem.space.whole() ? options.random_starts : 0;
  for (int k = 0; goes_on && k < random_starts; ++k) {
    NamedStrategy start{"random", problem.space.RandomStrategy(random)};
    goes_on = !state.Done() && AddStart(problem, std::move(start),
                                        FarBehind(state, starts, rules.most), state, starts);
  }
  std::stable_sort(starts.begin(), starts.end());
  return starts;
}

Nanos Walk::DrawLimit(double beta, Nanos unit) {
  const double u = (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53;
  const double slack = -std::log(u) / beta * static_cast<double>(unit.value());
  return at_.time + Nanos(static_cast<int64_t>(std::clamp(slack, 0.0, 4e18)));
}

void Walk::GoTo(WalkPoint point) {
  at_ = std::move(point);
  least_ = at_.excess_memory > 0 ? kNoCutoff : at_.time;
}

Walk::Outcome Walk::Step(Nanos limit) {
  const Nanos before = state_.to_beat();
  const double excess_before = at_.excess_memory;
  const std::optional<MadeStep> made = MakeStep(limit);
  if (!made.has_value()) return {.ended = true};
  Tell(*made);
  return {.improved = state_.to_beat() < before || at_.excess_memory < excess_before};
}

std::optional<Walk::MadeStep> Walk::MakeStep(Nanos limit) {
  const std::optional<Proposal> made = Propose(problem_.space, at_.strategy, random_);
  if (!made.has_value()) return std::nullopt;
  Strategy proposed = at_.strategy;
  Decide(state_.graph(), proposed, made->decisions);
  const Nanos cutoff = at_.excess_memory == 0 ? limit : at_.time * kMostToFit;
  MadeStep step{.evaluation = state_.Evaluate({&proposed, &at_.name, cutoff}), .time = at_.time};
  const Evaluation& evaluation = step.evaluation;
  if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return std::nullopt;
  if (evaluation.is_within() && evaluation.time < least_) {
    least_ = evaluation.time;
    step.strategy = proposed;
  }
  if (evaluation.verdict == Evaluation::Verdict::kInvalid || evaluation.is_beyond()) return step;
  WalkPoint to = PointOf(at_.name, std::move(proposed), evaluation, problem_.evaluator);
  if (to.excess_memory > at_.excess_memory) return step;
  if (to.excess_memory == at_.excess_memory && to.time > limit) return step;
  at_ = std::move(to);
  step.accepted = made->move;
  step.time = at_.time;
  return step;
}

void Walk::Tell(const MadeStep& step) {
  state_.Count(step.evaluation);
  if (step.strategy.has_value()) state_.Keep(*step.strategy, at_.name, step.evaluation);
  if (step.accepted == nullptr) return;
  state_.CountAccepted(number_, at_.name, step.accepted->name, step.time);
}

}  // namespace partita
