#include "tests/bench/proposal_chain.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/bench/processor_time.h"

namespace partita {
namespace {

double Microseconds() { return ProcessorSeconds() * 1e6; }

}  // namespace

double Times::Mean() const {
  double sum = 0;
  for (double time : all_) sum += time;
  return sum / static_cast<double>(all_.size());
}

double Times::Quantile(double q) const {
  std::vector<double> sorted = all_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

ProposalChain::ProposalChain(const Evaluator& evaluator, const std::vector<NamedStrategy>& starts,
                             double beta, const std::function<bool()>& late)
    : evaluator_(evaluator),
      beta_(beta),
      late_(late),
      space_(evaluator.graph(), evaluator.topology().size()) {
  for (const NamedStrategy& start : starts) {
    const Evaluation evaluation = evaluator.EvaluateBriefly(start.strategy, kNoCutoff, late_);
    if (!evaluation.feasible() || (has_start_ && evaluation.time >= time_)) continue;
    current_ = start.strategy;
    time_ = unit_ = evaluation.time;
    has_start_ = true;
  }
}

void ProposalChain::WarmUp(int steps, const std::function<bool()>& ended) {
  constexpr int kBlock = 50;
  constexpr double kFactor = 2;
  int proposals = 0, accepted = 0;
  for (int k = 0; k < steps && !ended(); ++k) {
    const std::optional<bool> taken = Step(false, nullptr);
    proposals += taken.has_value();
    accepted += taken.value_or(false);
    if (proposals < kBlock) continue;
    if (accepted * 10 > proposals) beta_ *= kFactor;
    proposals = accepted = 0;
  }
}

std::optional<bool> ProposalChain::Step(bool counted, const Evaluator* checker) {
  const Graph& graph = evaluator_.graph();
  const OpId op = graph.anchors()[random_() % graph.anchors().size()];
  ParallelConfig config = space_.RandomConfig(op, random_);
  if (config == current_.configs[op.index()]) return std::nullopt;
  Strategy proposal = current_;
  proposal.configs[op.index()] = std::move(config);
  const double u = (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53;
  const double slack = -std::log(u) / beta_ * static_cast<double>(unit_.value());
  const Nanos limit = time_ + Nanos(static_cast<int64_t>(slack));
  const double begin = Microseconds();
  const Evaluation evaluation = evaluator_.EvaluateBriefly(proposal, limit, late_);
  const double end = Microseconds();
  if (evaluation.verdict == Evaluation::Verdict::kInterrupted ||
      evaluation.verdict == Evaluation::Verdict::kInvalid) {
    return std::nullopt;
  }
  const bool is_bounded = evaluation.tasks == 0;
  if (counted && is_bounded && checker != nullptr) {
    const Evaluation whole = checker->EvaluateBriefly(proposal, kNoCutoff, late_);
    if (whole.verdict == Evaluation::Verdict::kInvalid) return std::nullopt;
  }
  const bool accepted = evaluation.feasible() && evaluation.time <= limit;
  if (counted) {
    early_.Add(end - begin);
    bounded_ += is_bounded;
    solved_ += evaluation.solved;
    accepted_ += accepted;
    kept_.push_back(proposal);
  }
  if (accepted) {
    current_ = std::move(proposal);
    time_ = evaluation.time;
  }
  return accepted;
}

void ProposalChain::Complete(const Evaluator& evaluator) {
  for (const Strategy& strategy : kept_) {
    const double begin = Microseconds();
    const Evaluation evaluation = evaluator.EvaluateBriefly(strategy, kNoCutoff, late_);
    const double end = Microseconds();
    if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return;
    complete_.Add(end - begin);
    tasks_ += evaluation.tasks;
  }
}

double ProposalChain::cached() const {
  const auto tensors = static_cast<double>(evaluator_.graph().tensors().size());
  return 1 - Share(static_cast<double>(solved_)) / tensors;
}

double ProposalChain::tasks() const {
  return static_cast<double>(tasks_) / static_cast<double>(complete_.size());
}

}  // namespace partita
