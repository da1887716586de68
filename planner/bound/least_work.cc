#include "planner/bound/least_work.h"

#include <algorithm>
#include <numeric>
#include <utility>

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

}  // namespace

int64_t LeastWorkTime(const BoundSubject& subject, SplitFinder& finder, const LeastPrices& prices) {
  const Graph& graph = subject.graph;
  const int devices = subject.options.devices;
  double compute = 0;
  for (OpId anchor : graph.anchors()) {
    const int64_t work = finder.Of(anchor).work;
    if (finder.given_up()) return 0;
    if (work != kNoTime) compute += static_cast<double>(work);
  }
  for (const Operator& op : graph.ops()) {
    if (op.anchor != kNoOp || subject.fates[op.id.index()].may_be_updated) continue;
    compute += static_cast<double>(finder.UpdateOf(op.id).all);
  }
  for (const Tensor& tensor : graph.tensors()) {
    if (!IsLoaded(tensor) || !IsReadWhole(graph, tensor.id)) continue;
    compute += static_cast<double>(prices.OfLoading(tensor).all);
  }
  std::vector<Choice> choices;
  for (const Tensor& tensor : graph.tensors()) {
    const int64_t terms = TermsOf(graph, tensor);
    if (terms < 2) continue;
    const int64_t elements = Volume(tensor.type.shape);
    const auto adding = static_cast<double>(
        prices.OfMoving(MoveSignature::Kind::kAdd, tensor.type.dtype, elements).all);
    const auto arriving = static_cast<double>(std::min<int64_t>(terms, devices) - 1);
    compute += adding * (static_cast<double>(terms - 1) - arriving);
    // The communication lanes of all devices work at once, compute lanes perhaps of fewer.
    const double arrival = static_cast<double>(elements * SizeOf(tensor.type.dtype)) *
                           subject.delivery.nanos_per_byte * subject.at_once / devices;
    choices.push_back({adding * arriving, arrival * arriving});
  }
  const double all = Balance(compute, std::move(choices));
  return static_cast<int64_t>(all / subject.at_once * (1 - 1e-9));
}

int64_t LateWorkTime(const BoundSubject& subject, SplitFinder& finder,
                     const std::vector<int64_t>& heads) {
  std::vector<std::pair<int64_t, int64_t>> works;  // head, work
  for (OpId anchor : subject.graph.anchors()) {
    const AnchorSplits& splits = finder.Of(anchor);
    if (finder.given_up()) return 0;
    const auto& followers = finder.FollowersOf(anchor);
    for (size_t f = 0; f < followers.size(); ++f) {
      int64_t head = heads[followers[f].index()];
      // What it does first counts with it.
      const OpId takes = subject.fates[followers[f].index()].takes;
      if (takes != kNoOp) head = std::min(head, heads[takes.index()]);
      if (head != kNoTime && splits.work_of[f] != kNoTime) {
        works.emplace_back(head, splits.work_of[f]);
      }
    }
  }
  std::sort(works.begin(), works.end());
  int64_t longest = 0, sum = 0;
  for (size_t k = works.size(); k-- > 0;) {
    sum += works[k].second;
    longest = std::max(longest, works[k].first + sum / subject.at_once);
  }
  return longest;
}

}  // namespace partita
