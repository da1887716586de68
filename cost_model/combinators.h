#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cost_model/cost_model.h"
#include "cost_model/machine.h"
#include "cost_model/measured_cost.h"
#include "graph/collective/collective.h"
#include "graph/parallel/alike_nodes.h"

namespace partita {

// The answer of the first model that knows.
class FirstMatch : public CostModel {
 public:
  explicit FirstMatch(std::vector<std::unique_ptr<CostModel>> models);

  std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                     DeviceId device) const override;
  std::optional<TaskCost> MoveCost(const MoveSignature& signature, DeviceId device) const override;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override;
  std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const override;
  bool CountsBytesOfChannels() const override;
  Nanos StepOverhead(int64_t tasks) const override;

 private:
  std::vector<std::unique_ptr<CostModel>> models_;
};

// Factors on another model's times, for calibration and for what-if questions.
struct ScaleFactors {
  double kernels = 1, moves = 1, collectives = 1, transfers = 1;
};
class Scaled : public CostModel {
 public:
  Scaled(std::unique_ptr<CostModel> model, ScaleFactors factors);

  std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                     DeviceId device) const override;
  std::optional<TaskCost> MoveCost(const MoveSignature& signature, DeviceId device) const override;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override;
  std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const override;
  bool CountsBytesOfChannels() const override;
  Nanos StepOverhead(int64_t tasks) const override;

 private:
  std::unique_ptr<CostModel> model_;
  ScaleFactors factors_;
};

// The answers of one model, with TaskCost::uncontended from another where the first one's are not
// mere roofline and the second knows. Where either was measured unsteadily, the answer is unsteady.
class ContendedAndUncontended : public CostModel {
 public:
  ContendedAndUncontended(std::unique_ptr<CostModel> busy, std::unique_ptr<CostModel> uncontended);

  std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                     DeviceId device) const override;
  std::optional<TaskCost> MoveCost(const MoveSignature& signature, DeviceId device) const override;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override;
  std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const override;
  bool CountsBytesOfChannels() const override;
  Nanos StepOverhead(int64_t tasks) const override;

 private:
  template <class Ask>
  std::optional<TaskCost> Both(Ask&& ask) const;

  std::unique_ptr<CostModel> busy_, uncontended_;
};

// First equal device of each device, on which every kernel and move takes the same time: of the
// same class and profile.
std::vector<DeviceId> EqualDevices(const Machine& machine, const DeviceProfiles& profiles);

// Caches the answers for kernels, moves and collectives. `equal_devices[d]` (see above) stands for
// device d, and where nodes are alike (AlikeNodes) one group for all that are like it. Transfers are
// asked for again, as are collectives of few ranks, of more without alike nodes: to look one up takes
// about as long as to price it. When the answers of a kind take more than `most`, the older half is
// dropped; all-to-alls, which take the square of their ranks, are a kind by themselves.
class Cached : public CostModel {
 public:
  Cached(std::unique_ptr<CostModel> model, std::vector<DeviceId> equal_devices,
         std::optional<AlikeNodes> nodes = std::nullopt, Bytes most = Bytes(int64_t{64} << 20));

  std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                     DeviceId device) const override;
  std::optional<TaskCost> MoveCost(const MoveSignature& signature, DeviceId device) const override;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override;
  std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const override;
  bool CountsBytesOfChannels() const override;
  DeviceId FirstEqual(DeviceId device) const override { return equal_devices_[device.index()]; }
  Nanos StepOverhead(int64_t tasks) const override;

 private:
  using Answer = std::optional<TaskCost>;
  // The answer; or, where it was not exact, what it had to beat and did not.
  struct Known {
    Answer answer;
    bool is_exact = true;
  };
  // What is known by the answer to a question.
  template <class Key>
  static Known KnownOf(const Key&, const Answer& answer) {
    return {answer};
  }
  static Known KnownOf(const CollectiveCall& call, const Answer& answer);
  // Whether what is known answers a question.
  template <class Key>
  static bool Answers(const Key&, const Known&) {
    return true;
  }
  static bool Answers(const CollectiveCall& call, const Known& known);

  // Keys own their parts; look-ups compare with the caller's without copying.
  template <class Signature>
  struct Asked {
    const Signature& signature;
    DeviceId device;
  };
  template <class Signature>
  struct Owned {
    Signature signature;
    DeviceId device;
    explicit Owned(const Asked<Signature>& a) : signature(a.signature), device(a.device) {}
    int64_t heap_bytes() const;
  };
  struct SignatureHash {
    using is_transparent = void;
    template <class Key>
    size_t operator()(const Key& key) const {
      return absl::HashOf(key.signature, key.device);
    }
  };
  struct SignatureEqual {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return a.device == b.device && a.signature == b.signature;
    }
  };
  struct OwnedCall {
    partita::Collective collective;
    std::string algorithm;
    std::vector<DeviceId> group;
    DType dtype;
    explicit OwnedCall(const CollectiveCall& call);
    int64_t heap_bytes() const;
    CollectiveCall call() const { return {&collective, algorithm, group, dtype}; }
  };
  struct CallHash {
    using is_transparent = void;
    size_t operator()(const CollectiveCall& call) const;
    size_t operator()(const OwnedCall& call) const { return (*this)(call.call()); }
  };
  struct CallEqual {
    using is_transparent = void;
    bool operator()(const CollectiveCall& a, const CollectiveCall& b) const;
    bool operator()(const OwnedCall& a, const CollectiveCall& b) const {
      return (*this)(a.call(), b);
    }
    bool operator()(const CollectiveCall& a, const OwnedCall& b) const {
      return (*this)(a, b.call());
    }
    bool operator()(const OwnedCall& a, const OwnedCall& b) const {
      return (*this)(a.call(), b.call());
    }
  };
  // Answers to one kind of question: those asked for since the older ones were put aside, and those.
  template <class Question, class Hash, class Equal>
  struct Kept {
    absl::flat_hash_map<Question, Known, Hash, Equal> recent, older;
    int64_t recent_bytes = 0;
  };
  template <class Signature>
  using KeptBySignature = Kept<Owned<Signature>, SignatureHash, SignatureEqual>;

  template <class Question, class Hash, class Equal, class Key, class Ask>
  Answer Remember(Kept<Question, Hash, Equal>& kept, const Key& key, Ask&& ask) const;

  std::unique_ptr<CostModel> model_;
  std::vector<DeviceId> equal_devices_;
  std::optional<AlikeNodes> nodes_;
  Bytes most_;
  mutable std::shared_mutex mutex_;  // guards the answers
  mutable KeptBySignature<KernelSignature> kernels_;
  mutable KeptBySignature<MoveSignature> moves_;
  mutable Kept<OwnedCall, CallHash, CallEqual> collectives_, all_to_alls_;
};

}  // namespace partita
