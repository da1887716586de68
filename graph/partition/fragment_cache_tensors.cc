// Exchanges of tensors as a fragment cache finds and keeps them.
#include <algorithm>
#include <utility>

#include "graph/partition/bucket_fragment.h"
#include "graph/partition/fragment_cache.h"
#include "graph/partition/fragment_memory.h"
#include "graph/support/heap_bytes.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// The choices at the front of the list that are the tensor's.
std::span<const AlgorithmChoice> AlgorithmsOf(TensorId id, std::span<const AlgorithmChoice> list) {
  size_t own = 0;
  while (own < list.size() && list[own].collective.tensor == id) ++own;
  return list.first(own);
}

std::span<const AlgorithmChoice> AlgorithmsIn(const Strategy& strategy, TensorId id) {
  const auto all = std::span<const AlgorithmChoice>(strategy.algorithms);
  const auto first = std::find_if(all.begin(), all.end(), [id](const AlgorithmChoice& choice) {
    return choice.collective.tensor == id;
  });
  return AlgorithmsOf(id, std::span(first, all.end()));
}

}  // namespace

// Without algorithms, then and now, what follows from the same decisions is found.
bool FragmentCache::FindTensors(const Strategy& strategy, const Interrupted& interrupted) {
  missing_.clear();
  const bool has_algorithms = !strategy.algorithms.empty();
  const bool had_algorithms = std::exchange(had_algorithms_, has_algorithms);
  const DeviceId host = std::exchange(host_device_, strategy.host_device);
  if (has_algorithms || had_algorithms || host != strategy.host_device) decided_->OpenAllTensors();
  MissingPlaces places;
  std::span<const AlgorithmChoice> rest = strategy.algorithms;
  for (int32_t t : decided_->OpenTensors()) {
    const TensorId id(t);
    const auto algorithms = AlgorithmsOf(id, rest);
    rest = rest.subspan(algorithms.size());
    Found*& last = found_[id.index()];
    const Key key = KeyOfTensor(id, algorithms, strategy);
    if (last == nullptr || last->key != key) {
      const auto& kept = tensors_[ClassOf(id)];
      const auto it = kept.find(key);
      Replace(last, it == kept.end() ? nullptr : it->second.get());
    }
    const TensorFragments* found = last == nullptr ? nullptr : &last->exchanged->fragments;
    if (last == nullptr) {
      if (interrupted && interrupted()) return false;
      if (IsOutlined() && algorithms.empty()) {
        found = FindAlike(id, key, strategy, places);
      } else {
        missing_.push_back({{id}, {}});
      }
    }
    SetTensor(id, found, current_);
  }
  decided_->CloseTensors([this](int32_t t) { return found_[static_cast<size_t>(t)] == nullptr; });
  return true;
}

// Those of its class under equal decisions first, which takes no builder.
const TensorFragments* FragmentCache::FindAlike(TensorId id, const Key& key,
                                                const Strategy& strategy, MissingPlaces& places) {
  const auto like = places.by_decisions.find({ClassOf(id), key});
  if (like != places.by_decisions.end()) {
    missing_[like->second].tensors.push_back(id);
    return nullptr;
  }
  TensorFragmentsBuilder builder = BuilderOf(id, strategy);
  TensorContent content = builder.content();
  if (const auto known = by_content_.find(content); known != by_content_.end()) {
    return AddFound(id, key, known->second);
  }
  const auto [place, is_new] = places.by_content.try_emplace(content, missing_.size());
  places.by_decisions.try_emplace({ClassOf(id), key}, place->second);
  if (is_new) {
    missing_.push_back({{id}, std::move(content), std::move(builder)});
  } else {
    missing_[place->second].tensors.push_back(id);
  }
  return nullptr;
}

FragmentCache::Key FragmentCache::KeyOfTensor(TensorId id,
                                              std::span<const AlgorithmChoice> algorithms,
                                              const Strategy& strategy) {
  Key key{AlgorithmsId(id.index(), algorithms)};
  if (is_host_[id.index()]) key.push_back(strategy.host_device.value());
  for (int32_t decision : decisions_.of_tensor[id.index()]) {
    key.push_back((*decided_)[decision]);
  }
  return key;
}

TensorFragmentsBuilder FragmentCache::BuilderOf(TensorId id, const Strategy& strategy) const {
  const size_t t = id.index();
  const int32_t w = weight_of_[t];
  const LaidOut* laid_out = w < 0 ? nullptr : placed_[static_cast<size_t>(w)]->laid_out.get();
  return TensorFragmentsBuilder(
      graph_, graph_.tensor(id), parts_,
      {.groups = groups_[t],
       .layouts = laid_out == nullptr ? nullptr : &laid_out->layouts,
       .host_device = strategy.host_device,
       .algorithms = AlgorithmsIn(strategy, id),
       .outlines = IsOutlined(),
       .pod_parts = pod_parts_,
       .pod_layouts = laid_out == nullptr ? nullptr : &laid_out->pod_layouts},
      options_);
}

TensorFragmentsBuilder FragmentCache::Solve(Missing& missing, const Strategy& strategy) const {
  TensorFragmentsBuilder builder = missing.builder.has_value()
                                       ? std::move(*missing.builder)
                                       : BuilderOf(missing.tensors[0], strategy);
  missing.builder.reset();
  builder.Solve();
  return builder;
}

absl::Status FragmentCache::Build(const Missing& missing, TensorFragmentsBuilder solved,
                                  const Strategy& strategy, StepFragments& step) {
  const Tensor& tensor = solved.tensor();
  auto exchanged = std::make_shared<Exchanged>();
  exchanged->fragments = std::move(solved).Build();
  exchanged->content = missing.content;
  const auto algorithms = AlgorithmsIn(strategy, tensor.id);
  RETURN_IF_ERROR(CheckAlgorithms(tensor, exchanged->fragments, algorithms));
  for (TensorFragment& fragment : exchanged->fragments.groups) {
    Register(fragment, HeapBytesOf(fragment));
  }
  Enter(*exchanged, kBytesOfSlot<decltype(by_content_)::value_type> +
                        HeapBytesOfAllocation(sizeof(Exchanged)) + HeapBytesOf(exchanged->content) +
                        HeapBytesOf(exchanged->fragments));
  for (TensorId id : missing.tensors) {
    const TensorFragments* found = AddFound(id, KeyOfTensor(id, algorithms, strategy), exchanged);
    SetTensor(id, found, current_);
    SetTensor(id, found, step);
  }
  if (!exchanged->content.empty()) by_content_.emplace(exchanged->content, exchanged);
  return absl::OkStatus();
}

const TensorFragments* FragmentCache::AddFound(TensorId id, Key key,
                                               std::shared_ptr<Exchanged> exchanged) {
  std::unique_ptr<Found>& kept = tensors_[ClassOf(id)][key];
  if (kept == nullptr) {
    kept = std::make_unique<Found>();
    kept->exchanged = std::move(exchanged);
    kept->key = std::move(key);
    Enter(*kept, kBytesOfSlot<Kept<Found>::value_type> + HeapBytesOfAllocation(sizeof(Found)) +
                     2 * HeapBytesOf(kept->key));
  }
  Replace(found_[id.index()], kept.get());
  return &kept->exchanged->fragments;
}

// 0 for none.
int32_t FragmentCache::AlgorithmsId(size_t tensor, std::span<const AlgorithmChoice> algorithms) {
  if (algorithms.empty()) return 0;
  const std::vector<AlgorithmChoice> wanted(algorithms.begin(), algorithms.end());
  return NumberOf(algorithms_[tensor], wanted, [&] {
    int64_t bytes = HeapBytesOf(wanted);
    for (const AlgorithmChoice& one : wanted) bytes += HeapBytesOf(one.algorithm);
    return bytes;
  });
}

}  // namespace partita
