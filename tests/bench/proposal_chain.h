#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "cost_model/machine.h"
#include "graph/graph.h"
#include "planner/evaluator.h"
#include "planner/search/search_algorithm.h"
#include "planner/space/search_space.h"

namespace partita {

// Processor times of some evaluations, in microseconds.
class Times {
 public:
  void Add(double time) { all_.push_back(time); }
  bool empty() const { return all_.empty(); }
  size_t size() const { return all_.size(); }
  double Mean() const;
  double Quantile(double q) const;  // q in [0, 1]

 private:
  std::vector<double> all_;
};

// A chain of Metropolis steps (FlexFlow, MLSys 2019, section 6) from the best of some starts. A
// proposal gives one random operator one random configuration of the whole space; those that change
// nothing, or do not fit the graph or the machine, are not counted. Each is evaluated as a search
// does, against a threshold drawn first.
class ProposalChain {
 public:
  // `beta`, at first: a step that is slower by the fraction x of the start is accepted with
  // exp(-beta x). The evaluator outlives the chain, and so does `late`, after which nothing more is
  // begun or counted.
  ProposalChain(const Evaluator& evaluator, const std::vector<NamedStrategy>& starts, double beta,
                const std::function<bool()>& late);

  // Whether one of the starts fits in memory. Without one there is nothing to step from.
  bool has_start() const { return has_start_; }

  // Makes so many steps that are not counted, as long as `ended` is not true, and raises beta in between
  // until at most 10 % of them are accepted.
  void WarmUp(int steps, const std::function<bool()>& ended);
  // Makes a step and adds what it took.
  // `checker`, of the same graph: whether a proposal that is given up early could run at all; null:
  // all could.
  void Step(const Evaluator* checker = nullptr) { Step(true, checker); }
  // Evaluates the counted proposals again, to the end, with `evaluator`.
  void Complete(const Evaluator& evaluator);

  const Times& early_exit() const { return early_; }
  const Times& complete() const { return complete_; }
  // Shares of the counted proposals, in [0, 1].
  double accepted() const { return Share(static_cast<double>(accepted_)); }
  // Rejected by the loads of resources before the step was whole.
  double bounded() const { return Share(static_cast<double>(bounded_)); }
  // Tensors of the graph whose exchanges were still known.
  double cached() const;
  double tasks() const;  // mean of those that were evaluated to the end

 private:
  // Whether a proposal was accepted; nothing where it was none.
  std::optional<bool> Step(bool counted, const Evaluator* checker);
  double Share(double count) const { return count / static_cast<double>(kept_.size()); }

  const Evaluator& evaluator_;
  double beta_;
  const std::function<bool()>& late_;
  const SearchSpace space_;
  std::mt19937_64 random_{1};
  Strategy current_;
  Nanos time_, unit_;
  bool has_start_ = false;
  Times early_, complete_;
  std::vector<Strategy> kept_;
  int64_t accepted_ = 0, bounded_ = 0, tasks_ = 0, solved_ = 0;
};

}  // namespace partita
