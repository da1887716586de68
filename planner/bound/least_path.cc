#include "planner/bound/least_path.h"

#include <algorithm>
#include <utility>

#include "graph/partition/fragment.h"

namespace partita {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

LeastPath::LeastPath(const BoundSubject& subject, SplitFinder& finder, const LeastPrices& prices)
    : graph_(subject.graph),
      fates_(subject.fates),
      finder_(finder),
      others_(subject.options.devices - 1),
      delivery_(subject.delivery),
      makers_(graph_.tensors().size()),
      ready_(graph_.tensors().size()),
      fused_(graph_.ops().size()),
      heads_(graph_.ops().size(), kNoTime) {
  for (const Tensor& tensor : graph_.tensors()) {
    loads_.push_back(IsLoaded(tensor) ? prices.OfLoading(tensor).one : 0);
  }
  for (const Operator& op : graph_.ops()) {
    if (op.anchor == kNoOp) {
      VisitUpdate(op);
    } else {
      Visit(op);
    }
    if (finder.given_up()) return;
  }
}

// The update of a weight waits for all terms of some element; nothing is known of its boxes. What
// is the sum of several terms is not updated by the kernels that make these.
void LeastPath::VisitUpdate(const Operator& op) {
  int64_t head = 0, end = 0;
  const int64_t time = finder_.UpdateOf(op.id).one;
  for (TensorId input : op.inputs) {
    const Shape one(graph_.tensor(input).type.shape.size(), 1);
    const int64_t ready = ReadyAt(input, one), size = SizeOf(graph_.tensor(input).type.dtype);
    head = std::max(head, ready);
    const auto& producers = makers_[input.index()];
    if (!fates_[op.id.index()].may_be_updated || producers.size() != 1) {
      end = std::max(end, ready + time);
      continue;
    }
    int64_t least = kNoTime;
    for (const Maker& maker : producers[0]) {
      const bool may_be_fused = maker.made.terms == 1;
      least = std::min(
          least, may_be_fused ? maker.start + maker.time : ReadyFrom(maker, one, size) + time);
    }
    if (least != kNoTime) end = std::max(end, least);
  }
  heads_[op.id.index()] = head;
  length_ = std::max(length_, end);
}

void LeastPath::Visit(const Operator& op) {
  const AnchorSplits& all = finder_.Of(op.anchor);
  if (finder_.given_up()) return;
  const auto& followers = finder_.FollowersOf(op.anchor);
  const auto place = std::find(followers.begin(), followers.end(), op.id) - followers.begin();
  const auto& splits = all.of[static_cast<size_t>(place)];
  if (splits.empty()) return;
  std::vector<int64_t> starts;
  int64_t& head = heads_[op.id.index()];
  int64_t end = kNoTime;
  for (const OperatorSplit& split : splits) {
    starts.push_back(StartOf(op, split));
    head = std::min(head, starts.back());
    end = std::min(end, starts.back() + split.time);
  }
  for (const Maker& maker : fused_[op.id.index()]) end = std::min(end, maker.start + maker.time);
  length_ = std::max(length_, end);
  AddMakers(op, splits, starts);
}

void LeastPath::AddMakers(const Operator& op, const std::vector<OperatorSplit>& splits,
                          const std::vector<int64_t>& starts) {
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    if (!MakesAllOf(graph_, op, k)) continue;
    // What the kernels that apply an epilogue make of its result, they make instead of it.
    std::vector<Maker> makers = std::move(fused_[op.id.index()]);
    for (size_t s = 0; s < splits.size(); ++s) {
      makers.push_back({starts[s], splits[s].time, splits[s].makes[k]});
    }
    std::sort(makers.begin(), makers.end(),
              [](const Maker& a, const Maker& b) { return a.start + a.time < b.start + b.time; });
    makers_[op.outputs[k].index()].push_back(std::move(makers));
  }
  const FusionFate& fate = fates_[op.id.index()];
  if (fate.epilogue == kNoOp || fate.is_unknown) return;
  for (size_t s = 0; s < splits.size(); ++s) {
    if (splits[s].time_with_epilogue == kNoTime) continue;
    fused_[fate.epilogue.index()].push_back(
        {starts[s], splits[s].time_with_epilogue, splits[s].makes[0]});
  }
}

int64_t LeastPath::StartOf(const Operator& op, const OperatorSplit& split) {
  int64_t start = 0;
  for (size_t k = 0; k < op.inputs.size() && k < 64; ++k) {
    if ((split.reads >> k & 1) != 0) start = std::max(start, ReadyAt(op.inputs[k], split.need[k]));
  }
  return start;
}

// When a device may have a box of these extents complete: it needs what every producer makes of it.
int64_t LeastPath::ReadyAt(TensorId tensor, const Shape& need) {
  const auto& producers = makers_[tensor.index()];
  if (producers.empty()) return loads_[tensor.index()];
  const auto [it, added] = ready_[tensor.index()].try_emplace(need, 0);
  if (!added) return it->second;
  const int64_t size = SizeOf(graph_.tensor(tensor).type.dtype);
  int64_t ready = 0;
  for (const std::vector<Maker>& makers : producers) {
    int64_t least = kNoTime;
    for (const Maker& maker : makers) {
      if (maker.start + maker.time >= least) break;
      least = std::min(least, ReadyFrom(maker, need, size, least));
    }
    if (least != kNoTime) ready = std::max(ready, least);
  }
  return it->second = ready;
}

// By the time t the device has computed (t - start) / time parts at most; the bytes that those lack
// arrive, all after the first part elsewhere has ended. Solved for t.
int64_t LeastPath::WithArrivals(const Maker& maker, int64_t bytes, int64_t bytes_of_part) const {
  constexpr double kRounding = 2;  // ns, that is left to the rounding of times to whole ones
  if (maker.time <= 0) return 0;
  const auto start = static_cast<double>(maker.start), time = static_cast<double>(maker.time);
  const double of_own = delivery_.nanos_per_byte * static_cast<double>(bytes_of_part) /
                        static_cast<double>(maker.made.terms);  // of a part
  const double all =
      start + time + delivery_.latency + delivery_.nanos_per_byte * static_cast<double>(bytes);
  return static_cast<int64_t>((all + of_own * start / time) / (1 + of_own / time) - kRounding);
}

int64_t LeastPath::ReadyFrom(const Maker& maker, const Shape& need, int64_t size,
                             int64_t enough) const {
  int64_t parts = maker.made.terms, wanted = 1, of_part = 1;
  for (size_t d = 0; d < need.size(); ++d) {
    const int64_t block = std::max<int64_t>(1, maker.made.block[d]);
    parts *= CeilDiv(need[d], block);
    wanted *= need[d];
    of_part *= std::min(need[d], block);
  }
  const int64_t first = maker.start + maker.time, alone = maker.start + parts * maker.time;
  if (parts == 1 || others_ == 0) return alone;
  if (alone >= enough && WithArrivals(maker, wanted * size, of_part * size) >= enough) {
    return enough;
  }
  // With so many of the parts computed on the device.
  const auto own = [&](int64_t here) { return maker.start + here * maker.time; };
  const auto arrived = [&](int64_t here) {
    const int64_t complete = here / maker.made.terms * of_part;
    const int64_t bytes = std::max<int64_t>(1, wanted - complete) * size;
    const int64_t computed = maker.start + CeilDiv(parts - here, others_) * maker.time;
    return std::max(
        first + static_cast<int64_t>(delivery_.latency +
                                     delivery_.nanos_per_byte * static_cast<double>(bytes)),
        computed + static_cast<int64_t>(delivery_.latency));
  };
  int64_t low = 0, high = parts - 1;  // the first at which the own ones take longer, or the last
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (own(middle) >= arrived(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  int64_t ready = std::max(own(low), arrived(low));
  if (low > 0) ready = std::min(ready, std::max(own(low - 1), arrived(low - 1)));
  return std::min(alone, ready);
}

}  // namespace partita
