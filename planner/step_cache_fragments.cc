// Flat forms of fragments as a step cache finds and keeps them, within its limit.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "graph/support/heap_bytes.h"
#include "planner/step_cache.h"

namespace partita {
namespace {

// What is left of the limit when it was passed, so that it is not passed again at once.
constexpr int64_t kShares = 4, kSharesLeft = 3;

// Memory of the buffers from `first` on, by device, each once.
std::vector<std::pair<DeviceId, Bytes>> BytesByDevice(const BufferUses& uses, int32_t first) {
  std::vector<Bytes> sums(static_cast<size_t>(uses.devices));
  AddMemoryOf(std::span(uses.buffers).subspan(static_cast<size_t>(first)), sums);
  std::vector<std::pair<DeviceId, Bytes>> bytes;
  for (size_t d = 0; d < sums.size(); ++d) {
    if (sums[d] > Bytes(0)) bytes.emplace_back(static_cast<int32_t>(d), sums[d]);
  }
  return bytes;
}

template <class FlatVariant>
Bytes BytesOfVariant(const FlatVariant& variant) {
  const int64_t bytes = static_cast<int64_t>(sizeof(FlatVariant)) + HeapBytesOf(variant.first);
  return BytesOf(*variant.second) + Bytes(bytes);
}

}  // namespace

StepCache::Flattened& StepCache::FlattenedOf(const Fragment& fragment,
                                             const CommunicationsOfGraph& communications) {
  if (flattened_.size() <= static_cast<size_t>(fragment.place)) {
    flattened_.resize(static_cast<size_t>(cache_.fragment_places()));
  }
  Flattened& known = flattened_[static_cast<size_t>(fragment.place)];
  if (known.plain != nullptr) return known;
  known.plain = std::make_unique<FlatFragment>(flattener_.Flatten(fragment.graph, communications));
  known.buffers = BytesByDevice(known.plain->step.uses, fragment.outer);
  cache_.AddBytes(fragment, BytesOf(*known.plain) + Bytes(HeapBytesOf(known.buffers)));
  if (!cache_.options().native_formats) return known;
  known.native = known.plain->step.uses.buffers;
  for (Buffer buffer : fragment.graph.buffers()) {
    if (!MayBeNative(buffer)) continue;
    BufferUses::BufferFacts& facts = known.native[buffer.id.index()];
    facts.format = buffer.format = Format::kNative;
    if (rules_.sizes.buffer_bytes) facts.bytes = rules_.sizes.buffer_bytes(buffer);
  }
  cache_.AddBytes(fragment, Bytes(HeapBytesOf(known.native)));
  return known;
}

// Those that links had last stay, whatever else goes.
const FlatFragment& StepCache::VariantOf(OpId id) {
  const Fragment& fragment = *fragments_.operators[id.index()];
  Flattened& known = FlattenedOf(fragment);
  const FragmentLinker::Variant variant = link_.VariantOf(fragments_, id);
  if (const auto it = known.variants.find(variant); it != known.variants.end()) return *it->second;
  if (known.variants.size() >= known.most_variants) DropVariants(fragment, known);
  const auto [added, is_new] = known.variants.emplace(
      variant, std::make_unique<FlatFragment>(flattener_.Flatten(link_.Resolve(fragments_, id))));
  cache_.AddBytes(fragment, BytesOfVariant(*added));
  return *added->second;
}

// Those that links had last stay, and may be most of them.
void StepCache::DropVariants(const Fragment& fragment, Flattened& known) {
  absl::flat_hash_set<const FlatFragment*> last;
  for (const LinkState& state : states_) last.insert(state.flat);
  absl::erase_if(known.variants, [&](const auto& entry) {
    if (last.contains(entry.second.get())) return false;
    cache_.AddBytes(fragment, Bytes(-BytesOfVariant(entry).value()));
    return true;
  });
  known.most_variants = std::max(kMaxVariants, 2 * known.variants.size());
}

// Flat forms go with their fragments. Loads of what is gone are not known any more.
void StepCache::Shrink() {
  if (cache_.bytes() <= most_) return;
  const Bytes left(most_.value() / kShares * kSharesLeft);
  std::vector<bool> is_dropped(static_cast<size_t>(cache_.fragment_places()), false);
  const std::span<const int32_t> dropped = cache_.DropOldest(left);
  for (int32_t place : dropped) is_dropped[static_cast<size_t>(place)] = true;
  for (size_t k = 0; k < counted_.size(); ++k) {
    if (counted_[k] >= 0 && is_dropped[static_cast<size_t>(counted_[k])]) ForgetLoads(k);
  }
  for (int32_t place : dropped) {
    if (static_cast<size_t>(place) < flattened_.size()) flattened_[static_cast<size_t>(place)] = {};
  }
}

// Once an operator's kernels are flat only those are asked for that may be joined with others.
void StepCache::ForgetKernels(size_t link) {
  const ChainLink& of = cache_.chain()[link];
  if (!of.is_tensor && !keeps_kernels_[static_cast<size_t>(of.id)]) {
    cache_.KeepNoKernels(OpId(of.id));
  }
}

}  // namespace partita
