// What of a fragment cache stays and what goes when memory is short.
#include <algorithm>
#include <utility>

#include "graph/partition/fragment_cache.h"

namespace partita {

void FragmentCache::Hold() {
  held_configured_ = configured_;
  held_placed_ = placed_;
  held_found_ = found_;
}

std::span<const int32_t> FragmentCache::DropOldest(Bytes most) {
  dropped_.clear();
  if (bytes_ <= most) return dropped_;
  missing_.clear();  // refers to what may go
  TouchHeld();
  const int64_t first_kept = FirstKeptUse(most);
  for (auto& kept : configs_) DropFrom(kept, first_kept);
  // Nothing refers any more to layouts and exchanges that go.
  for (auto& kept : layouts_) DropFrom(kept, first_kept);
  DropFrom(by_layouts_, first_kept);
  for (auto& kept : tensors_) DropFrom(kept, first_kept);
  DropFrom(by_content_, first_kept);
  DropFrom(buckets_, first_kept);
  for (auto& known : placements_) DropFrom(known, first_kept);
  for (auto& known : algorithms_) DropFrom(known, first_kept);
  free_.insert(free_.end(), dropped_.begin(), dropped_.end());
  return dropped_;
}

void FragmentCache::KeepCollectives(TensorId id) {
  if (!IsOutlined()) return;
  for (TensorFragment& fragment : found_[id.index()]->exchanged->fragments.groups) {
    AddBytes(fragment, Bytes(-fragment.graph.KeepCollectives()));
  }
}

void FragmentCache::KeepNoKernels(OpId id) {
  if (!IsOutlined() || current_.operators[id.index()]->graph.tasks().empty()) return;
  const auto place = static_cast<size_t>(KindOf(id).place);
  const Operator& op = graph_.op(id);
  OperatorFragment& fragment = op.anchor == kNoOp
                                   ? placed_[WeightOfUpdate(op)]->laid_out->fragments[place]
                                   : configured_[op.anchor.index()]->fragments[place];
  AddBytes(fragment, Bytes(-fragment.graph.KeepCollectives()));
}

size_t FragmentCache::WeightOfUpdate(const Operator& op) const {
  return static_cast<size_t>(weight_of_[op.anchor_weight.index()]);
}

FragmentCache::OperatorKind FragmentCache::KindOf(OpId id) const {
  const Operator& op = graph_.op(id);
  const bool is_update = op.anchor == kNoOp;
  const std::vector<OpId>& all =
      is_update ? updates_[WeightOfUpdate(op)] : followers_[op.anchor.index()];
  const auto place = std::find(all.begin(), all.end(), id) - all.begin();
  return {
      is_update,
      is_update ? classes_.of_laid_out[WeightOfUpdate(op)] : classes_.of_anchor[op.anchor.index()],
      static_cast<int32_t>(place)};
}

void FragmentCache::TouchHeld() {
  const auto touch = [this](const auto&... lists) {
    const auto touch_all = [this](const auto& list) {
      for (auto* one : list) {
        if (one != nullptr) Touch(*one);
      }
    };
    (touch_all(lists), ...);
  };
  touch(configured_, placed_, found_, held_configured_, held_placed_, held_found_);
}

template <class Visit>
void FragmentCache::VisitKept(Visit&& visit) const {
  const auto visit_each = [&](const auto& maps) {
    for (const auto& kept : maps) {
      for (const auto& [key, one] : kept) visit(*one);
    }
  };
  visit_each(configs_);
  visit_each(layouts_);
  for (const auto& [content, laid_out] : by_layouts_) visit(*laid_out);
  for (const auto& [content, exchanged] : by_content_) visit(*exchanged);
  for (const auto& kept : tensors_) {
    for (const auto& [key, found] : kept) {
      visit(*found);
      if (found->exchanged->content.empty()) visit(*found->exchanged);  // its own
    }
  }
  for (const auto& [key, bucketed] : buckets_) visit(*bucketed);
  for (const auto& known : placements_) {
    for (const auto& one : known) visit(one);
  }
  for (const auto& known : algorithms_) {
    for (const auto& one : known) visit(one);
  }
}

// The least `last_use` of what may stay. What was used last of all stays in any case.
int64_t FragmentCache::FirstKeptUse(Bytes most) const {
  std::vector<std::pair<int64_t, Bytes>> uses;
  VisitKept([&](const auto& one) { uses.emplace_back(one.last_use, BytesOf(one)); });
  std::sort(uses.begin(), uses.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  Bytes taken;
  for (const auto& [last_use, bytes] : uses) {
    taken += bytes;
    if (taken > most) return std::min(last_use + 1, finds_);
  }
  return 0;
}

Bytes FragmentCache::BytesOf(const Configured& one) const {
  Bytes bytes = one.bytes;
  for (const Fragment& fragment : one.fragments) bytes += BytesOfKept(fragment);
  return bytes;
}

Bytes FragmentCache::BytesOf(const LaidOut& one) const {
  Bytes bytes = one.bytes;
  for (const Fragment& fragment : one.fragments) bytes += BytesOfKept(fragment);
  for (const Fragment& store : one.stores) bytes += BytesOfKept(store);
  return bytes;
}

Bytes FragmentCache::BytesOf(const Exchanged& one) const {
  Bytes bytes = one.bytes;
  for (const Fragment& fragment : one.fragments.groups) bytes += BytesOfKept(fragment);
  return bytes;
}

template <class By, class Value>
void FragmentCache::DropFrom(absl::flat_hash_map<By, std::unique_ptr<Value>>& kept,
                             int64_t first_kept) {
  absl::erase_if(kept, [&](const auto& entry) {
    if (entry.second->last_use >= first_kept) return false;
    Drop(*entry.second);
    return true;
  });
}

template <class Choice>
void FragmentCache::DropFrom(NumberedList<Choice>& known, int64_t first_kept) {
  std::erase_if(known, [&](const Numbered<Choice>& one) {
    if (one.last_use >= first_kept) return false;
    bytes_ -= one.bytes;
    return true;
  });
}

template <class Value>
void FragmentCache::DropFrom(
    absl::flat_hash_map<absl::Span<const int64_t>, std::shared_ptr<Value>>& kept,
    int64_t first_kept) {
  absl::erase_if(kept, [&](const auto& entry) {
    if (entry.second->last_use >= first_kept) return false;
    Drop(*entry.second);
    return true;
  });
}

void FragmentCache::Drop(const Fragment& fragment) {
  bytes_ -= std::exchange(bytes_of_[static_cast<size_t>(fragment.place)], Bytes(0));
  dropped_.push_back(fragment.place);
}

void FragmentCache::Drop(const Configured& one) {
  bytes_ -= one.bytes;
  for (const Fragment& fragment : one.fragments) Drop(fragment);
}

void FragmentCache::Drop(const LaidOut& one) {
  bytes_ -= one.bytes;
  for (const Fragment& fragment : one.fragments) Drop(fragment);
  for (const Fragment& store : one.stores) Drop(store);
}

void FragmentCache::Drop(const Bucketed& one) {
  bytes_ -= one.bytes;
  Drop(one.fragment);
}

void FragmentCache::Drop(const Exchanged& one) {
  bytes_ -= one.bytes;
  for (const Fragment& fragment : one.fragments.groups) Drop(fragment);
}

void FragmentCache::Drop(const Found& one) {
  bytes_ -= one.bytes;
  if (one.exchanged->content.empty()) Drop(*one.exchanged);
}

}  // namespace partita
