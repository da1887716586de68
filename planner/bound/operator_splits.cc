#include "planner/bound/operator_splits.h"

#include <algorithm>
#include <utility>

#include "graph/partition/fragment.h"
#include "planner/space/like_operators.h"
#include "planner/space/search_space.h"

namespace partita {
namespace {

// Calls visit(degrees) for splits of one or two loops by divisors of `devices`, into up to 2 x
// devices parts.
template <class Visit>
void ForEachEvenSplit(const ShardingRule& rule, int32_t devices, std::vector<int32_t>& degrees,
                      Visit& visit) {
  const auto fits = [&](size_t loop, int32_t degree) {
    return devices % degree == 0 && rule.loops[loop].splittable &&
           rule.loops[loop].extent >= degree;
  };
  for (size_t a = 0; a < rule.loops.size(); ++a) {
    for (int32_t by = 2; by <= devices; ++by) {
      if (!fits(a, by)) continue;
      degrees[a] = by;
      visit(degrees);
      for (size_t b = a + 1; b < rule.loops.size(); ++b) {
        for (int32_t also = 2; also * by <= 2 * devices; ++also) {
          if (!fits(b, also)) continue;
          degrees[b] = also;
          visit(degrees);
        }
        degrees[b] = 1;
      }
    }
    degrees[a] = 1;
  }
}

bool IsRead(const TensorView& view) { return view.present && !view.box.empty(); }

bool HasResult(const PartView& view) {
  return std::any_of(view.results.begin(), view.results.end(), IsRead);
}

// What tells blocks of one loop apart in the parts that they belong to, whatever those of the other
// loops are.
std::vector<int64_t> LookOf(const ShardingRule& rule, size_t loop, Interval block,
                            std::span<const Shape> operands, std::span<const Shape> results) {
  const auto number = static_cast<int>(loop);
  const bool is_first = block.lo == 0, is_last = block.hi == rule.loops[loop].extent;
  std::vector<int64_t> look = {block.size()};
  std::vector<Interval> blocks;
  for (const LoopDim& other : rule.loops) blocks.push_back({0, other.extent});
  blocks[loop] = block;
  const auto add = [&](const std::vector<DimMap>& dims, LoopSet once, const Shape& shape) {
    if (once.Contains(number)) look.push_back(is_first);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].loops.size() != 1 || dims[d].loops[0] != static_cast<int8_t>(loop)) continue;
      const auto wide = UnclippedInterval(dims[d], rule.loops, blocks);
      if (!wide.ok()) continue;
      const int64_t lo = wide->lo, hi = wide->hi, extent = shape[d];
      look.insert(look.end(), {hi - lo, std::clamp<int64_t>(-lo, 0, hi - lo),
                               std::clamp<int64_t>(hi - extent, 0, hi - lo)});
      if (dims[d].slack && is_last) look.push_back(extent - hi);
    }
  };
  for (size_t k = 0; k < operands.size(); ++k) {
    add(rule.operands[k].dims, rule.operands[k].once_loops, operands[k]);
  }
  for (size_t k = 0; k < results.size(); ++k) {
    add(rule.results[k].dims, rule.results[k].once_loops, results[k]);
  }
  return look;
}

// Whether a dimension is a product of the loop and others.
bool IsInProduct(const ShardingRule& rule, size_t loop) {
  const auto has = [&](const std::vector<DimMap>& dims) {
    return std::any_of(dims.begin(), dims.end(), [&](const DimMap& map) {
      return map.loops.size() > 1 &&
             std::count(map.loops.begin(), map.loops.end(), static_cast<int8_t>(loop)) > 0;
    });
  };
  return std::any_of(rule.operands.begin(), rule.operands.end(),
                     [&](const OperandRule& operand) { return has(operand.dims); }) ||
         std::any_of(rule.results.begin(), rule.results.end(),
                     [&](const ResultRule& result) { return has(result.dims); });
}

void LowerExtents(const Box& box, Shape& least) {
  if (least.empty()) {
    least = box.shape();
    return;
  }
  for (int d = 0; d < box.rank(); ++d) {
    int64_t& extent = least[static_cast<size_t>(d)];
    extent = std::min(extent, box[d].size());
  }
}

void RaiseExtents(const Box& box, Shape& most) {
  most.resize(static_cast<size_t>(box.rank()), 0);
  for (int d = 0; d < box.rank(); ++d) {
    int64_t& extent = most[static_cast<size_t>(d)];
    extent = std::max(extent, box[d].size());
  }
}

bool AreLike(const OperatorSplit& a, const OperatorSplit& b) {
  const auto same = [](const OperatorSplit::Made& x, const OperatorSplit::Made& y) {
    return x.block == y.block && x.terms == y.terms;
  };
  return a.reads == b.reads && a.need == b.need &&
         std::equal(a.makes.begin(), a.makes.end(), b.makes.begin(), b.makes.end(), same);
}

// Adds a split, or lowers the times of one that is like it.
void AddTo(std::vector<OperatorSplit>& splits, const OperatorSplit& split) {
  const auto it = std::find_if(splits.begin(), splits.end(),
                               [&](const OperatorSplit& other) { return AreLike(other, split); });
  if (it == splits.end()) {
    splits.push_back(split);
    return;
  }
  it->time = std::min(it->time, split.time);
  it->time_with_epilogue = std::min(it->time_with_epilogue, split.time_with_epilogue);
}

}  // namespace

SplitFinder::SplitFinder(const BoundSubject& subject, const LeastPrices& prices)
    : graph_(subject.graph),
      options_(subject.options),
      fates_(subject.fates),
      most_parts_(subject.most_parts),
      interrupted_(subject.interrupted),
      prices_(prices),
      followers_(partita::FollowersOf(graph_)),
      class_of_(ByOperator(graph_, LikeClasses(graph_))) {}

// Anchors of equal keys have equal splits.
SplitFinder::Key SplitFinder::KeyOf(OpId anchor) {
  Key key{class_of_[anchor.index()]};
  const auto& followers = followers_[anchor.index()];
  const auto place = [&](OpId other) {
    const auto it = std::find(followers.begin(), followers.end(), other);
    return other == kNoOp ? -1 : static_cast<int32_t>(it - followers.begin());
  };
  for (OpId id : followers) {
    const FusionFate& fate = fates_[id.index()];
    key.push_back(fate.is_unknown);
    key.push_back(fate.is_epilogue);
    key.push_back(place(fate.takes));
    key.push_back(place(fate.taken_by));
    const bool has_epilogue = fate.epilogue != kNoOp;
    key.push_back(has_epilogue ? class_of_[graph_.op(fate.epilogue).anchor.index()] : -1);
    key.push_back(fate.update == kNoOp ? -1 : UpdateKey(fate.update));
  }
  return key;
}

// The first update met with equal attributes and shapes, of which there are few.
int32_t SplitFinder::UpdateKey(OpId id) {
  const Operator& op = graph_.op(id);
  for (OpId first : updates_) {
    const Operator& other = graph_.op(first);
    if (other.attrs == op.attrs && graph_.InputShapes(other) == graph_.InputShapes(op)) {
      return first.value();
    }
  }
  updates_.push_back(id);
  return id.value();
}

const AnchorSplits& SplitFinder::Of(OpId anchor) {
  const auto [it, added] = known_.try_emplace(KeyOf(anchor));
  if (!added) return it->second;
  AnchorSplits& splits = it->second;
  splits.of.resize(followers_[anchor.index()].size());
  splits.work_of.assign(splits.of.size(), kNoTime);
  facts_.clear();
  blocks_.clear();
  const ShardingRule& rule = graph_.rule(anchor);
  auto visit = [&](const Degrees& degrees) { AddSplit(anchor, degrees, splits); };
  Degrees degrees(rule.loops.size(), 1);
  ForEachDegrees(rule, most_parts_, degrees, visit);
  if (most_parts_ < 2 * options_.devices) {
    ForEachEvenSplit(rule, options_.devices, degrees, visit);
  }
  return splits;
}

// Loops have the degree of the anchor's loop of the same name.
SplitFinder::Degrees SplitFinder::OwnDegrees(const Operator& op,
                                             const Degrees& degrees_of_anchor) const {
  const ShardingRule& anchor_rule = graph_.rule(op.anchor);
  Degrees own;
  for (const LoopDim& loop : graph_.rule(op.id).loops) {
    const int match = anchor_rule.FindLoop(loop.name);
    own.push_back(match < 0 ? 1 : degrees_of_anchor[static_cast<size_t>(match)]);
  }
  return own;
}

int64_t SplitFinder::LeastTimeOf(const Operator& op, const Part& part,
                                 const Degrees& degrees_of_anchor) {
  if (fates_[op.id.index()].is_epilogue) return 0;
  const Degrees own = OwnDegrees(op, degrees_of_anchor);
  const KernelSignature plain = PartKernels(graph_, op, options_).Of(part);
  return TimesOf(op, plain, part, TermsOf(op, 0, own), own).least;
}

// Splits that do not fit make no step.
void SplitFinder::AddSplit(OpId anchor, const Degrees& degrees, AnchorSplits& splits) {
  given_up_ = given_up_ || (interrupted_ && interrupted_());
  if (given_up_) return;
  const auto& followers = followers_[anchor.index()];
  std::vector<const Facts*> facts;
  for (OpId id : followers) {
    facts.push_back(&FactsOf(graph_.op(id), OwnDegrees(graph_.op(id), degrees)));
    if (!facts.back()->fits) return;
  }
  int64_t work = 0;
  for (size_t f = 0; f < followers.size(); ++f) {
    work += facts[f]->work;
    splits.work_of[f] = std::min(splits.work_of[f], facts[f]->work);
    for (const OperatorSplit& split : facts[f]->splits) AddTo(splits.of[f], split);
  }
  splits.work = std::min(splits.work, work);
}

const SplitFinder::Facts& SplitFinder::FactsOf(const Operator& op, const Degrees& degrees) {
  const auto [it, added] = facts_[op.id].try_emplace(degrees);
  if (added) it->second = MakeFacts(op, degrees);
  return it->second;
}

// Blocks of a loop, of those that look alike one with their number.
const SplitFinder::Blocks& SplitFinder::BlocksOf(const Operator& op, size_t loop, int32_t degree) {
  const auto [known, added] = blocks_.try_emplace({op.id, loop, degree});
  Blocks& blocks = known->second;
  if (!added) return blocks;
  const ShardingRule& rule = graph_.rule(op.id);
  const std::vector<Shape> inputs = graph_.InputShapes(op), outputs = graph_.OutputShapes(op);
  const bool is_whole = degree > 1 && IsInProduct(rule, loop);
  std::map<std::vector<int64_t>, size_t> places;
  for (int32_t k = 0; k < degree; ++k) {
    const Interval block = BlockOf(rule.loops[loop].extent, degree, k);
    std::vector<int64_t> look = LookOf(rule, loop, block, inputs, outputs);
    if (is_whole) look.push_back(k);
    const auto [it, is_first] = places.try_emplace(std::move(look), blocks.size());
    if (is_first) blocks.emplace_back(block, 0);
    ++blocks[it->second].second;
  }
  return blocks;
}

// nullopt where the split does not fit.
std::optional<SplitFinder::Counted> SplitFinder::PartsOf(const Operator& op,
                                                         const Degrees& degrees) {
  const ShardingRule& rule = graph_.rule(op.id);
  const std::vector<Shape> inputs = graph_.InputShapes(op), outputs = graph_.OutputShapes(op);
  std::vector<const Blocks*> blocks;
  for (size_t l = 0; l < degrees.size(); ++l) blocks.push_back(&BlocksOf(op, l, degrees[l]));
  Counted counted;
  std::vector<size_t> digit(blocks.size(), 0);
  for (;;) {
    std::vector<Interval> own;
    int64_t count = 1;
    for (size_t l = 0; l < blocks.size(); ++l) {
      const auto& [block, number] = (*blocks[l])[digit[l]];
      own.push_back(block);
      count *= number;
    }
    auto view = ViewPart(rule, inputs, outputs, std::move(own));
    if (!view.ok()) return std::nullopt;
    if (HasResult(*view)) {
      const auto index = static_cast<int32_t>(counted.parts.size());
      counted.parts.push_back({index, DeviceId(0), index, *std::move(view)});
      counted.count.push_back(count);
    }
    size_t l = 0;
    while (l < digit.size() && ++digit[l] == blocks[l]->size()) digit[l++] = 0;
    if (l == digit.size()) return counted;
  }
}

// Parts that differ along loops that the result does not have, and that all have one.
int64_t SplitFinder::TermsOf(const Operator& op, size_t output, const Degrees& degrees) const {
  const ShardingRule& rule = graph_.rule(op.id);
  const ResultRule& result = rule.results[output];
  const LoopSet indexing = LoopsOf(result.dims).Union(result.once_loops);
  int64_t terms = 1;
  for (size_t l = 0; l < degrees.size(); ++l) {
    if (indexing.Contains(static_cast<int>(l))) continue;
    terms *= std::min<int64_t>(degrees[l], rule.loops[l].extent);
  }
  return terms;
}

SplitFinder::Facts SplitFinder::MakeFacts(const Operator& op, const Degrees& degrees) {
  const std::optional<Counted> counted = PartsOf(op, degrees);
  Facts facts{.fits = counted.has_value()};
  if (!facts.fits || counted->parts.empty()) return facts;
  std::vector<OperatorSplit::Made> makes(op.outputs.size());
  for (size_t k = 0; k < makes.size(); ++k) {
    makes[k].terms = TermsOf(op, k, degrees);
    for (const Part& part : counted->parts) {
      if (part.view.results[k].present) RaiseExtents(part.view.results[k].box, makes[k].block);
    }
  }
  PartKernels kernels(graph_, op, options_);
  const FusionFate& fate = fates_[op.id.index()];
  std::map<uint64_t, OperatorSplit> by_reads;
  for (size_t p = 0; p < counted->parts.size(); ++p) {
    const Part& part = counted->parts[p];
    const KernelTimes times = TimesOf(op, kernels.Of(part), part, makes[0].terms, degrees);
    const int64_t time = times.least;
    // The kernels that apply an epilogue take its time.
    if (!fate.is_epilogue) facts.work += counted->count[p] * times.work;
    uint64_t reads = 0;
    for (size_t k = 0; k < op.inputs.size() && k < 64; ++k) {
      if (IsRead(part.view.operands[k])) reads |= uint64_t{1} << k;
    }
    const auto [it, added] = by_reads.try_emplace(
        reads, OperatorSplit{.reads = reads, .need = {}, .makes = makes, .time = time});
    OperatorSplit& split = it->second;
    split.time = std::min(split.time, time);
    if (!fate.is_unknown && fate.epilogue != kNoOp && makes[0].terms == 1) {
      split.time_with_epilogue = std::min(split.time_with_epilogue, time);
    }
    split.need.resize(op.inputs.size());
    for (size_t k = 0; k < op.inputs.size() && k < 64; ++k) {
      if ((reads >> k & 1) != 0) LowerExtents(part.view.operands[k].box, split.need[k]);
    }
  }
  for (auto& [reads, split] : by_reads) facts.splits.push_back(std::move(split));
  return facts;
}

// A part in whatever way its kernel is fused; `terms`: of its first result.
SplitFinder::KernelTimes SplitFinder::TimesOf(const Operator& op, const KernelSignature& plain,
                                              const Part& part, int64_t terms,
                                              const Degrees& degrees) {
  const FusionFate& fate = fates_[op.id.index()];
  if (fate.is_unknown) return {};
  if (fate.taken_by != kNoOp) {
    if (MayBeTaken(op, degrees)) return {};
    const int64_t time = prices_.OfKernel(plain);
    return {time, time};
  }
  if (fate.update != kNoOp) return TimesWithUpdate(op, plain, part, terms);
  const int64_t time = OfKernelOrEpilogue(op, plain);
  if (fate.takes == kNoOp) return {time, time};
  return TimesTaking(op, plain, part, degrees);
}

int64_t SplitFinder::OfKernelOrEpilogue(const Operator& op, const KernelSignature& kernel) {
  const OpId epilogue = fates_[op.id.index()].epilogue;
  const int64_t plain = prices_.OfKernel(kernel);
  if (epilogue == kNoOp) return plain;
  return std::min(plain, prices_.OfKernel(WithEpilogue(kernel, graph_.op(epilogue).attrs)));
}

// Whether each of its parts may make all of what a part of its reader reads.
bool SplitFinder::MayBeTaken(const Operator& op, const Degrees& degrees) const {
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    if (TermsOf(op, k, degrees) > 1) return false;
  }
  return true;
}

// A kernel that may do another operator's part first, which has the blocks of its loops.
SplitFinder::KernelTimes SplitFinder::TimesTaking(const Operator& op, const KernelSignature& plain,
                                                  const Part& part, const Degrees& degrees) {
  const int64_t time = OfKernelOrEpilogue(op, plain);
  const Operator& first = graph_.op(fates_[op.id.index()].takes);
  const ShardingRule &rule = graph_.rule(op.id), &first_rule = graph_.rule(first.id);
  std::vector<Interval> blocks;
  Degrees first_degrees;
  for (const LoopDim& loop : first_rule.loops) {
    const int match = rule.FindLoop(loop.name);
    if (match < 0) return {};
    blocks.push_back(part.view.blocks[static_cast<size_t>(match)]);
    first_degrees.push_back(degrees[static_cast<size_t>(match)]);
  }
  if (!MayBeTaken(first, first_degrees)) return {time, time};
  auto view = ViewPart(first_rule, graph_.InputShapes(first), graph_.OutputShapes(first), blocks);
  if (!view.ok() || !HasResult(*view)) return {};
  const Part before{0, DeviceId(0), 0, *std::move(view)};
  bool is_complete = true;  // what it makes is all that is read
  InputLinks alone(op.inputs.size()), shared;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    for (size_t o = 0; o < first.outputs.size(); ++o) {
      if (op.inputs[k] != first.outputs[o]) continue;
      is_complete &= before.view.results[o].box == part.view.operands[k].box;
      alone[k] = TensorPlace{TensorPlace::List::kOutput, static_cast<int32_t>(o)};
    }
  }
  shared = alone;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    for (size_t i = first.inputs.size(); i-- > 0;) {
      const bool same = op.inputs[k] == first.inputs[i] &&
                        before.view.operands[i].box == part.view.operands[k].box;
      if (same) shared[k] = TensorPlace{TensorPlace::List::kInput, static_cast<int32_t>(i)};
    }
  }
  if (!is_complete) return {time, time};
  const KernelSignature kernel = PartKernels(graph_, first, options_).Of(before);
  const int64_t apart = time + prices_.OfKernel(kernel);
  const int64_t joined = std::min(OfKernelOrEpilogue(op, Fused(kernel, plain, alone)),
                                  OfKernelOrEpilogue(op, Fused(kernel, plain, shared)));
  return {std::min(time, joined), std::min(apart, joined)};
}

// A gradient's kernel, which may do the update of the region that it makes.
SplitFinder::KernelTimes SplitFinder::TimesWithUpdate(const Operator& op,
                                                      const KernelSignature& plain,
                                                      const Part& part, int64_t terms) {
  const int64_t time = prices_.OfKernel(plain);
  const Operator& update = graph_.op(fates_[op.id.index()].update);
  const Box& box = part.view.results[0].box;
  const int64_t elements = Volume(graph_.tensor(op.outputs[0]).type.shape);
  const double share = static_cast<double>(box.volume()) /
                       static_cast<double>(terms * std::max<int64_t>(1, elements));
  const auto of_update =
      static_cast<int64_t>(static_cast<double>(UpdateOf(update.id).all) * share * (1 - 1e-9));
  if (terms > 1) return {time, time + of_update};
  const PlacedBox region{box, DeviceId(0)};
  const WeightLayouts layouts{{region}, {region}, std::nullopt};
  const auto parts = UpdateParts(graph_, update, layouts.update);
  if (!parts.ok() || parts->empty()) return {};
  const OperatorFragment fragment =
      MakeOperatorFragment(graph_, update, *parts, {&layouts}, options_);
  const int64_t joined = prices_.OfKernel(FusedUpdate(plain, fragment.graph.signatures()[0]));
  return {std::min(time, joined), std::min(time + of_update, joined)};
}

const LeastPrices::Shared& SplitFinder::UpdateOf(OpId update) {
  const auto [it, added] = prices_of_updates_.try_emplace(OpId(UpdateKey(update)));
  if (added) it->second = prices_.OfUpdate(graph_, graph_.op(update));
  return it->second;
}

}  // namespace partita
