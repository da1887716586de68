#include "planner/lower_bound.h"

#include "planner/bound/least_path.h"
#include "planner/bound/least_prices.h"
#include "planner/bound/least_work.h"
#include "planner/bound/operator_splits.h"
#include "planner/bound/subject.h"

namespace partita {
LowerBound LowerBoundOf(const Evaluator& evaluator, const std::function<bool()>& interrupted) {
  const int64_t all_parts = 2 * int64_t{evaluator.topology().size()};
  const int64_t most_parts = all_parts <= kMostParts ? all_parts : kFewParts;
  const BoundSubject subject = BoundSubjectOf(evaluator, most_parts, interrupted);
  const LeastPrices prices(subject);
  SplitFinder finder(subject, prices);
  LowerBound bound{.is_complete = most_parts == all_parts};
  bound.work = Nanos(LeastWorkTime(subject, finder, prices));
  const LeastPath path(subject, finder, prices);
  bound.path = Nanos(path.Length());
  bound.late = Nanos(LateWorkTime(subject, finder, prices, path.heads()));
  return finder.given_up() ? LowerBound{} : bound;
}

double GapOf(Nanos time, Nanos bound) {
  if (time <= bound) return 0;
  return static_cast<double>((time - bound).value()) / static_cast<double>(time.value());
}

}  // namespace partita
