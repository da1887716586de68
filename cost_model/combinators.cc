#include "cost_model/combinators.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/hash/hash.h"
#include "graph/support/check.h"

namespace partita {
namespace {

using Answer = std::optional<TaskCost>;

template <class Ask>
Answer First(const std::vector<std::unique_ptr<CostModel>>& models, Ask&& ask) {
  for (const auto& model : models) {
    if (Answer answer = ask(*model)) return answer;
  }
  return std::nullopt;
}

Answer Times(Answer answer, double factor) {
  if (!answer.has_value()) return answer;
  const auto times = [factor](Nanos time) {
    return CostOfSeconds(static_cast<double>(time.value()) * 1e-9 * factor, CostSource::kMeasured)
        .time;
  };
  answer->time = times(answer->time);
  if (answer->uncontended > Nanos(0)) answer->uncontended = times(answer->uncontended);
  return answer;
}

// Whether an answer holds for everybody who asks.
bool IsExact(const CollectiveCall& call, const Answer& answer) {
  return call.to_beat == nullptr || !answer.has_value() || Beats(*answer, *call.to_beat);
}

// Collectives of fewer ranks are priced as fast as they are looked up.
constexpr int kFewestRanks = 16;
// The same where a group stands for others, too: it is looked up more often.
constexpr int kFewestOfAlike = 3;

template <class T>
int64_t HeapBytes(const std::vector<T>& list) {
  return static_cast<int64_t>(list.capacity() * sizeof(T));
}
int64_t HeapBytes(const KernelSignature& signature) {
  return HeapBytes(signature.inputs) + HeapBytes(signature.outputs) +
         HeapBytes(signature.fusion.rest);
}
int64_t HeapBytes(const MoveSignature&) { return 0; }

}  // namespace

FirstMatch::FirstMatch(std::vector<std::unique_ptr<CostModel>> models)
    : models_(std::move(models)) {}

Answer FirstMatch::KernelCost(const KernelSignature& signature, DeviceId device) const {
  return First(models_, [&](const CostModel& m) { return m.KernelCost(signature, device); });
}
Answer FirstMatch::MoveCost(const MoveSignature& signature, DeviceId device) const {
  return First(models_, [&](const CostModel& m) { return m.MoveCost(signature, device); });
}
Answer FirstMatch::CollectiveCost(const CollectiveCall& call) const {
  return First(models_, [&](const CostModel& m) { return m.CollectiveCost(call); });
}
Answer FirstMatch::TransferCost(std::span<const TransferCall> group) const {
  return First(models_, [&](const CostModel& m) { return m.TransferCost(group); });
}

Nanos FirstMatch::StepOverhead(int64_t tasks) const {
  Nanos most;
  for (const auto& model : models_) most = std::max(most, model->StepOverhead(tasks));
  return most;
}

bool FirstMatch::CountsBytesOfChannels() const {
  return std::all_of(models_.begin(), models_.end(),
                     [](const auto& model) { return model->CountsBytesOfChannels(); });
}

Scaled::Scaled(std::unique_ptr<CostModel> model, ScaleFactors factors)
    : model_(std::move(model)), factors_(factors) {}

Answer Scaled::KernelCost(const KernelSignature& signature, DeviceId device) const {
  return Times(model_->KernelCost(signature, device), factors_.kernels);
}
Answer Scaled::MoveCost(const MoveSignature& signature, DeviceId device) const {
  return Times(model_->MoveCost(signature, device), factors_.moves);
}
Answer Scaled::CollectiveCost(const CollectiveCall& call) const {
  CollectiveCall exact = call;
  exact.to_beat = nullptr;  // a limit before the factor
  return Times(model_->CollectiveCost(exact), factors_.collectives);
}
Answer Scaled::TransferCost(std::span<const TransferCall> group) const {
  return Times(model_->TransferCost(group), factors_.transfers);
}

Nanos Scaled::StepOverhead(int64_t tasks) const { return model_->StepOverhead(tasks); }
bool Scaled::CountsBytesOfChannels() const {
  return model_->CountsBytesOfChannels() && factors_.collectives >= 1 && factors_.transfers >= 1;
}

ContendedAndUncontended::ContendedAndUncontended(std::unique_ptr<CostModel> busy,
                                                 std::unique_ptr<CostModel> uncontended)
    : busy_(std::move(busy)), uncontended_(std::move(uncontended)) {}

template <class Ask>
Answer ContendedAndUncontended::Both(Ask&& ask) const {
  Answer answer = ask(*busy_);
  if (!answer.has_value() || answer->source == CostSource::kRoofline) return answer;
  const Answer uncontended = ask(*uncontended_);
  if (!uncontended.has_value()) return answer;
  answer->uncontended = uncontended->time;
  if (uncontended->source == CostSource::kUnsteady)
    answer->source = std::max(answer->source, uncontended->source);
  return answer;
}

Answer ContendedAndUncontended::KernelCost(const KernelSignature& signature,
                                           DeviceId device) const {
  return Both([&](const CostModel& m) { return m.KernelCost(signature, device); });
}
Answer ContendedAndUncontended::MoveCost(const MoveSignature& signature, DeviceId device) const {
  return Both([&](const CostModel& m) { return m.MoveCost(signature, device); });
}
Answer ContendedAndUncontended::CollectiveCost(const CollectiveCall& call) const {
  CollectiveCall exact = call;
  exact.to_beat = nullptr;
  return Both(
      [&](const CostModel& m) { return m.CollectiveCost(&m == busy_.get() ? call : exact); });
}
Answer ContendedAndUncontended::TransferCost(std::span<const TransferCall> group) const {
  return Both([&](const CostModel& m) { return m.TransferCost(group); });
}
Nanos ContendedAndUncontended::StepOverhead(int64_t tasks) const {
  return busy_->StepOverhead(tasks);
}
bool ContendedAndUncontended::CountsBytesOfChannels() const {
  return busy_->CountsBytesOfChannels() && uncontended_->CountsBytesOfChannels();
}

std::vector<DeviceId> EqualDevices(const Machine& machine, const DeviceProfiles& profiles) {
  const DeviceTopology& topology = machine.topology;
  CHECK_EQ(profiles.size(), static_cast<size_t>(topology.size()));
  std::vector<DeviceId> first;
  for (int d = 0; d < topology.size(); ++d) {
    int equal = 0;
    while (profiles[equal] != profiles[d] || topology.device(DeviceId(equal)).device_class !=
                                                 topology.device(DeviceId(d)).device_class) {
      ++equal;
    }
    first.push_back(DeviceId(equal));
  }
  return first;
}

Cached::Cached(std::unique_ptr<CostModel> model, std::vector<DeviceId> equal_devices,
               std::optional<AlikeNodes> nodes, Bytes most)
    : model_(std::move(model)),
      equal_devices_(std::move(equal_devices)),
      nodes_(std::move(nodes)),
      most_(most) {}

Cached::Known Cached::KnownOf(const CollectiveCall& call, const Answer& answer) {
  return IsExact(call, answer) ? Known{answer} : Known{*call.to_beat, false};
}
bool Cached::Answers(const CollectiveCall& call, const Known& known) {
  return known.is_exact || !IsExact(call, known.answer);
}

template <class Signature>
int64_t Cached::Owned<Signature>::heap_bytes() const {
  return HeapBytes(signature);
}

// Answers a question from what is kept, or asks and remembers.
template <class Question, class Hash, class Equal, class Key, class Ask>
Answer Cached::Remember(Kept<Question, Hash, Equal>& kept, const Key& key, Ask&& ask) const {
  {
    const std::shared_lock lock(mutex_);
    for (const auto* answers : {&kept.recent, &kept.older}) {
      const auto found = answers->find(key);
      if (found != answers->end() && Answers(key, found->second)) return found->second.answer;
    }
  }
  const Answer answer = ask();
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = kept.recent.try_emplace(Question(key));
  at->second = KnownOf(key, answer);
  if (is_new) kept.recent_bytes += static_cast<int64_t>(sizeof(*at)) + at->first.heap_bytes();
  if (kept.recent_bytes > most_.value() / 2) {
    kept.older = std::exchange(kept.recent, {});
    kept.recent_bytes = 0;
  }
  return answer;
}

Answer Cached::KernelCost(const KernelSignature& signature, DeviceId device) const {
  const DeviceId equal = equal_devices_[device.index()];
  return Remember(kernels_, Asked<KernelSignature>{signature, equal},
                  [&] { return model_->KernelCost(signature, equal); });
}
Answer Cached::MoveCost(const MoveSignature& signature, DeviceId device) const {
  const DeviceId equal = equal_devices_[device.index()];
  return Remember(moves_, Asked<MoveSignature>{signature, equal},
                  [&] { return model_->MoveCost(signature, equal); });
}
Answer Cached::CollectiveCost(const CollectiveCall& call) const {
  const int fewest = nodes_.has_value() ? kFewestOfAlike : kFewestRanks;
  if (call.collective->ranks < fewest) return model_->CollectiveCost(call);
  std::vector<DeviceId> group;
  CollectiveCall asked = call;
  if (nodes_.has_value()) {
    nodes_->Renumber(call.group, group);
    asked.group = group;
  }
  auto& kept = call.collective->kind == CollectiveKind::kAllToAll ? all_to_alls_ : collectives_;
  return Remember(kept, asked, [&] { return model_->CollectiveCost(asked); });
}
Answer Cached::TransferCost(std::span<const TransferCall> group) const {
  return model_->TransferCost(group);
}

Nanos Cached::StepOverhead(int64_t tasks) const { return model_->StepOverhead(tasks); }
bool Cached::CountsBytesOfChannels() const { return model_->CountsBytesOfChannels(); }

Cached::OwnedCall::OwnedCall(const CollectiveCall& call)
    : collective(*call.collective),
      algorithm(call.algorithm),
      group(call.group.begin(), call.group.end()),
      dtype(call.dtype) {}

int64_t Cached::OwnedCall::heap_bytes() const {
  int64_t bytes = HeapBytes(collective.blocks) + HeapBytes(collective.counts) + HeapBytes(group);
  for (const std::vector<int64_t>& counts : collective.counts) bytes += HeapBytes(counts);
  return bytes;
}

size_t Cached::CallHash::operator()(const CollectiveCall& call) const {
  size_t hash = absl::HashOf(call.collective->kind, call.collective->total, call.algorithm,
                             call.dtype, absl::MakeSpan(call.group.data(), call.group.size()));
  for (const ElementRange& block : call.collective->blocks) hash = absl::HashOf(hash, block.count);
  for (const std::vector<int64_t>& counts : call.collective->counts) {
    hash = absl::HashOf(hash, absl::MakeSpan(counts.data(), counts.size()));
  }
  return hash;
}

bool Cached::CallEqual::operator()(const CollectiveCall& a, const CollectiveCall& b) const {
  return a.algorithm == b.algorithm && a.dtype == b.dtype &&
         std::equal(a.group.begin(), a.group.end(), b.group.begin(), b.group.end()) &&
         *a.collective == *b.collective;
}

}  // namespace partita
