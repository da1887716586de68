#include "planner/bound/least_work.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/partition/fragment.h"

namespace partita {
namespace {

// Additions that may be done on a compute lane or with arrivals.
struct Choice {
  double compute = 0, communication = 0;  // nanoseconds, all on one or the other
};

// Whether the operator's unsplit part reads all of the tensor.
bool ReadsAllOf(const Graph& graph, const Operator& op, TensorId tensor) {
  const PartView whole =
      ViewWhole(graph.rule(op.id), graph.InputShapes(op), graph.OutputShapes(op));
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const TensorView& view = whole.operands[k];
    if (op.inputs[k] != tensor || !view.present) continue;
    if (view.box == Box::Full(graph.tensor(tensor).type.shape)) return true;
  }
  return false;
}

bool IsReadWhole(const Graph& graph, TensorId tensor) {
  const auto readers = graph.consumers(tensor);
  return std::any_of(readers.begin(), readers.end(),
                     [&](OpId id) { return ReadsAllOf(graph, graph.op(id), tensor); });
}

// Operators that add to all elements of a tensor, all of which are read; 1 where that is not known.
int64_t TermsOf(const Graph& graph, const Tensor& tensor) {
  if (tensor.kind != TensorKind::kActivation || graph.producers(tensor.id).size() < 2) return 1;
  if (!IsReadWhole(graph, tensor.id)) return 1;
  int64_t terms = 0;
  for (OpId id : graph.producers(tensor.id)) {
    const Operator& op = graph.op(id);
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      terms += op.outputs[k] == tensor.id && MakesAllOf(graph, op, k);
    }
  }
  return std::max<int64_t>(1, terms);
}

// The least largest of two sums: what is there already and chosen to be on compute lanes, and what
// is chosen to be on communication lanes. The cheapest to move are moved first.
double Balance(double compute, std::vector<Choice> choices) {
  std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.communication * b.compute < b.communication * a.compute;
  });
  double communication = 0;
  for (const Choice& choice : choices) compute += choice.compute;
  for (const Choice& choice : choices) {
    const double excess = compute - communication;
    if (excess <= 0) break;
    const double both = choice.compute + choice.communication;
    const double share = both > 0 ? std::min(1.0, excess / both) : 1;
    compute -= share * choice.compute;
    communication += share * choice.communication;
  }
  return std::max(compute, communication);
}

// Calls visit(tensor, additions of each element, time of each) for all sums of several operators'
// terms.
template <class Visit>
void ForEachSum(const BoundSubject& subject, const LeastPrices& prices, Visit visit) {
  for (const Tensor& tensor : subject.graph.tensors()) {
    const int64_t terms = TermsOf(subject.graph, tensor);
    if (terms < 2) continue;
    const int64_t elements = Volume(tensor.type.shape);
    const int64_t time =
        prices.OfMoving(MoveSignature::Kind::kAdd, tensor.type.dtype, elements).all;
    visit(tensor, terms - 1, time);
  }
}

// Calls visit(update, time) for updates that are not done by the kernels of gradients.
template <class Visit>
void ForEachUpdate(const BoundSubject& subject, SplitFinder& finder, Visit visit) {
  for (const Operator& op : subject.graph.ops()) {
    if (op.anchor != kNoOp || subject.fates[op.id.index()].may_be_updated) continue;
    visit(op, finder.UpdateOf(op.id).all);
  }
}

// Of these additions of an element, those that arrivals may do.
int64_t ArrivingOf(const BoundSubject& subject, int64_t additions) {
  return std::min<int64_t>(additions, subject.options.devices - 1);
}

}  // namespace

int64_t LeastWorkTime(const BoundSubject& subject, SplitFinder& finder, const LeastPrices& prices) {
  const Graph& graph = subject.graph;
  double compute = 0;
  for (OpId anchor : graph.anchors()) {
    const int64_t work = finder.Of(anchor).work;
    if (finder.given_up()) return 0;
    if (work != kNoTime) compute += static_cast<double>(work);
  }
  ForEachUpdate(subject, finder,
                [&](const Operator&, int64_t time) { compute += static_cast<double>(time); });
  for (const Tensor& tensor : graph.tensors()) {
    if (!IsLoaded(tensor) || !IsReadWhole(graph, tensor.id)) continue;
    compute += static_cast<double>(prices.OfLoading(tensor).all);
  }
  std::vector<Choice> choices;
  ForEachSum(subject, prices, [&](const Tensor& tensor, int64_t additions, int64_t time) {
    const auto arriving = static_cast<double>(ArrivingOf(subject, additions));
    const auto adding = static_cast<double>(time);
    compute += adding * (static_cast<double>(additions) - arriving);
    const auto bytes = static_cast<double>(tensor.type.bytes());
    // The communication lanes of all devices work at once, compute lanes perhaps of fewer.
    const double arrival =
        bytes * subject.delivery.nanos_per_byte * subject.at_once / subject.options.devices;
    choices.push_back({adding * arriving, arrival * arriving});
  });
  const double all = Balance(compute, std::move(choices));
  return static_cast<int64_t>(all / subject.at_once * (1 - 1e-9));
}

int64_t LateWorkTime(const BoundSubject& subject, SplitFinder& finder, const LeastPrices& prices,
                     const std::vector<int64_t>& heads) {
  std::vector<std::pair<int64_t, double>> works;  // head, work
  const auto add = [&](int64_t head, int64_t work) {
    if (head != kNoTime && work != kNoTime) works.emplace_back(head, static_cast<double>(work));
  };
  for (OpId anchor : subject.graph.anchors()) {
    const AnchorSplits& splits = finder.Of(anchor);
    if (finder.given_up()) return 0;
    const auto& followers = finder.FollowersOf(anchor);
    for (size_t f = 0; f < followers.size(); ++f) {
      int64_t head = heads[followers[f].index()];
      // What it does first counts with it.
      const OpId takes = subject.fates[followers[f].index()].takes;
      if (takes != kNoOp) head = std::min(head, heads[takes.index()]);
      add(head, splits.work_of[f]);
    }
  }
  ForEachUpdate(subject, finder,
                [&](const Operator& op, int64_t time) { add(heads[op.id.index()], time); });
  ForEachSum(subject, prices, [&](const Tensor& tensor, int64_t additions, int64_t time) {
    int64_t head = kNoTime;
    for (OpId id : subject.graph.producers(tensor.id)) head = std::min(head, heads[id.index()]);
    const int64_t there = additions - ArrivingOf(subject, additions);
    for (int64_t k = 0; k < there; ++k) add(head, time);
  });
  std::sort(works.begin(), works.end());
  double longest = 0, sum = 0;
  for (size_t k = works.size(); k-- > 0;) {
    sum += works[k].second;
    longest = std::max(longest, static_cast<double>(works[k].first) + sum / subject.at_once);
  }
  return static_cast<int64_t>(longest * (1 - 1e-9));
}

}  // namespace partita
