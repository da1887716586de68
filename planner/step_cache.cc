#include "planner/step_cache.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Of an operator's fragment; they are few, as neighbours decide them.
constexpr size_t kMaxVariants = 256;

// Keys sort operators before tensors, each by number; the tasks of a fragment have one of them.
std::vector<size_t> KeyOrder(const std::vector<FragmentCache::Link>& chain) {
  std::vector<size_t> order(chain.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const FragmentCache::Link &x = chain[a], &y = chain[b];
    return std::tuple(x.is_tensor, x.id, x.group) < std::tuple(y.is_tensor, y.id, y.group);
  });
  return order;
}

}  // namespace

StepCache::StepCache(const Graph& graph, PartitionOptions options, const FlatteningRules& rules,
                     int64_t max_tasks)
    : rules_(rules),
      cache_(graph, std::move(options), max_tasks),
      link_(cache_),
      key_order_(KeyOrder(cache_.chain())) {}

absl::StatusOr<const FlatStep*> StepCache::FindOrBuild(const Strategy& strategy) {
  RETURN_IF_ERROR(cache_.FindOrBuild(strategy, fragments_));
  if (generation_ != cache_.generation()) flattened_.clear();
  generation_ = cache_.generation();
  flattened_.resize(static_cast<size_t>(cache_.fragments()));
  link_.Link(fragments_);
  builder_.Start(rules_.resources.count(), cache_.options().devices);
  for (const Fragment* store : fragments_.stores) {
    if (store != nullptr) AddBuffers(*store);
  }
  flat_.clear();
  for (const FragmentCache::Link& link : cache_.chain()) {
    if (link.is_tensor) {
      const TensorId id(link.id);
      const TensorFragment& fragment =
          fragments_.tensors[id.index()]->groups[static_cast<size_t>(link.group)];
      flat_.push_back(FlattenedOf(fragment).plain.get());
      AddBuffers(fragment);
      builder_.AddTasks(*flat_.back(), link_.TensorSlots(id, link.group));
    } else {
      const OpId id(link.id);
      AddBuffers(*fragments_.operators[id.index()]);
      AddOperator(id);
    }
  }
  builder_.SetAfter(link_.after());
  for (size_t place : key_order_) builder_.AddKeys(*flat_[place], place);
  return &builder_.Finish(link_.outputs());
}

StepCache::Flattened& StepCache::FlattenedOf(const Fragment& fragment) {
  Flattened& known = flattened_[static_cast<size_t>(fragment.number)];
  if (known.plain != nullptr) return known;
  known.plain = std::make_unique<FlatStep>(FlattenStep(fragment.graph, rules_));
  if (!cache_.options().native_formats) return known;
  known.native = known.plain->uses.buffers;
  for (Buffer buffer : fragment.graph.buffers()) {
    if (!MayBeNative(buffer)) continue;
    BufferUses::BufferFacts& facts = known.native[buffer.id.index()];
    facts.format = buffer.format = Format::kNative;
    if (rules_.sizes.buffer_bytes) facts.bytes = rules_.sizes.buffer_bytes(buffer);
  }
  return known;
}

void StepCache::AddOperator(OpId id) {
  Flattened& known = FlattenedOf(*fragments_.operators[id.index()]);
  if (link_.IsPlain(fragments_, id)) {
    flat_.push_back(known.plain.get());
    builder_.AddTasks(*flat_.back(), link_.OperatorSlots(id));
    return;
  }
  const FragmentLinker::Variant variant = link_.VariantOf(fragments_, id);
  auto it = std::find_if(known.variants.begin(), known.variants.end(),
                         [&](const auto& entry) { return entry.first == variant; });
  if (it == known.variants.end()) {
    if (known.variants.size() == kMaxVariants) known.variants.clear();
    known.variants.emplace_back(
        variant, std::make_unique<FlatStep>(FlattenStep(link_.Resolve(fragments_, id), rules_)));
    it = known.variants.end() - 1;
  }
  flat_.push_back(it->second.get());
  builder_.AddTasks(*flat_.back(), link_.ResolvedSlots(id));
}

void StepCache::AddBuffers(const Fragment& fragment) {
  const Flattened& known = FlattenedOf(fragment);
  for (auto slot = static_cast<size_t>(fragment.outer); slot < known.plain->uses.buffers.size();
       ++slot) {
    const BufferId id(builder_.buffers());
    builder_.AddBuffer(link_.IsNative(id) ? known.native[slot] : known.plain->uses.buffers[slot]);
  }
}

}  // namespace partita
