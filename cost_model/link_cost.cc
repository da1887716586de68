#include "cost_model/link_cost.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "graph/collective/algorithms.h"
#include "graph/collective/collective.h"
#include "graph/collective/schedule.h"
#include "graph/support/sort.h"

namespace partita {
namespace {

// Uncertainty of prices over links by data sheets, and over measured links.
constexpr double kSpread = 0.3;
constexpr double kMeasuredSpread = 0.15;

// Prices a collective as its schedule is written, up to a limit.
class RoundPricer : public ScheduleWriter {
 public:
  RoundPricer(MessageGroup& messages, const CollectiveCall& call, double limit)
      : call_(call), size_(SizeOf(call.dtype)), limit_(limit), messages_(messages) {}

  // Of the whole collective, or a part of them that is above the limit.
  double seconds() const { return seconds_; }

 private:
  void OnStep(const CollectiveStep& step) override {
    if (step.from != from_) StopAbove(seconds_ + messages_.LeastSeconds());
    from_ = step.from;
    messages_.Add(call_.group[static_cast<size_t>(step.from)],
                  call_.group[static_cast<size_t>(step.to)], step.count * size_,
                  step.action == StepAction::kReduce);
  }
  void OnRound(bool) override { OnAlikeRounds(1); }
  bool TakesAlikeRounds() const override { return true; }
  void OnAlikeRounds(int rounds) override {
    const double of_one = messages_.TakeSeconds();
    for (int k = 0; k < rounds && wants_more(); ++k) {
      seconds_ += of_one;
      StopAbove(seconds_);
    }
  }
  void StopAbove(double seconds) {
    if (seconds <= limit_) return;
    seconds_ = seconds;
    Stop();
  }

  const CollectiveCall& call_;
  const int64_t size_;
  const double limit_;
  MessageGroup& messages_;
  int from_ = -1;  // the sender of the last step
  double seconds_ = 0;
};

// The rate that was measured for the algorithm and the number of ranks on the class of the group.
const CollectiveRate* RateFor(const Machine& machine, const CollectiveCall& call) {
  if (machine.collective_rates.empty() || !AreAlike(machine.topology, call.group)) return nullptr;
  const std::string& device_class = machine.topology.device(call.group[0]).device_class;
  const CollectiveRate* rate = nullptr;
  for (const CollectiveRate& row : machine.collective_rates) {
    if (row.ranks != call.collective->ranks) continue;
    if (!row.device_class.empty() && row.device_class != device_class) continue;
    if (row.algorithm == call.algorithm || (row.algorithm.empty() && rate == nullptr)) rate = &row;
  }
  return rate;
}

}  // namespace

LinkCost::LinkCost(std::shared_ptr<const Machine> machine)
    : machine_(std::move(machine)), messages_(*machine_) {}

std::optional<TaskCost> LinkCost::KernelCost(const KernelSignature&, DeviceId) const {
  return std::nullopt;
}

std::optional<TaskCost> LinkCost::MoveCost(const MoveSignature&, DeviceId) const {
  return std::nullopt;
}

TaskCost LinkCost::CostOverLinks(double seconds) const {
  return machine_->links_measured
             ? CostOfSeconds(seconds, CostSource::kInterpolated, kMeasuredSpread)
             : CostOfSeconds(seconds, CostSource::kRoofline, kSpread);
}

// Seconds from which on a price is of no use. A little above the price to beat, since the parts of a
// sum are rounded in another order than the whole.
double LinkCost::LimitOf(const CollectiveCall& call) const {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (call.to_beat == nullptr || CostOverLinks(0).source < call.to_beat->source) return kNone;
  return (static_cast<double>(call.to_beat->time.value()) + 2) * 1e-9 * (1 + 1e-9);
}

std::optional<TaskCost> LinkCost::CollectiveCost(const CollectiveCall& call) const {
  if (const CollectiveRate* rate = RateFor(*machine_, call)) {
    const auto totals = TotalsOf(call.algorithm, *call.collective);
    if (!totals.ok()) return std::nullopt;
    const int64_t busiest = *std::max_element(totals->received.begin(), totals->received.end());
    const double seconds =
        1e-9 * rate->line.latency_ns * static_cast<double>(totals->rounds) +
        static_cast<double>(busiest * SizeOf(call.dtype)) / rate->line.bytes_per_second;
    return CostOfSeconds(seconds, CostSource::kInterpolated, rate->spread);
  }
  const MessageGroups::Lent messages = messages_.Lend();
  RoundPricer pricer(*messages, call, LimitOf(call));
  if (!WriteSchedule(call.algorithm, *call.collective, pricer).ok()) return std::nullopt;
  return CostOverLinks(pricer.seconds());
}

std::optional<TaskCost> LinkCost::TransferCost(std::span<const TransferCall> group) const {
  // What one device sends, together.
  std::vector<TransferCall> by_sender(group.begin(), group.end());
  SortUnlessSorted(by_sender.begin(), by_sender.end(),
                   [](const TransferCall& a, const TransferCall& b) { return a.from < b.from; });
  const MessageGroups::Lent messages = messages_.Lend();
  for (const TransferCall& call : by_sender) messages->Add(call.from, call.to, call.bytes, false);
  return CostOverLinks(messages->TakeSeconds());
}

}  // namespace partita
