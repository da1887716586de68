#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"
#include "graph/support/strong_int.h"
#include "graph/task/kernel_signature.h"
#include "graph/tensor.h"

namespace partita {

struct Collective;  // graph/collective/collective.h

// Source of a duration, best first. Sums and maxima of costs take the worst.
enum class CostSource : uint8_t {
  kMeasured,      // timings of this very task on this device, which agree
  kUnsteady,      // timings of it that are few or far apart (SteadinessOf)
  kInterpolated,  // timings of the same kernel at other sizes, or a fit to timings
  kRoofline,      // arithmetic, bytes and the machine's figures
};
absl::string_view Name(CostSource source);  // "measured", "unsteady", ..

// Duration of an undisturbed task. At least 1 ns, also for tasks that do nothing: the total order
// of a schedule rests on that.
struct TaskCost {
  Nanos time{1};
  CostSource source = CostSource::kRoofline;
  // Expected relative deviation of a single run: median absolute deviation / median of the samples
  // where measured, otherwise the model's stated uncertainty.
  double spread = 0;
  // Duration while the other devices of its computer are idle, and for communication: while the
  // compute lanes of its devices wait for it. 0: the same as `time`, which is for busy ones.
  Nanos uncontended{0};

  Nanos Uncontended() const { return uncontended > Nanos(0) ? uncontended : time; }
  friend bool operator==(const TaskCost&, const TaskCost&) = default;
};

// Whether a cost is preferred to another: of a better source, or of the same and shorter.
bool Beats(const TaskCost& cost, const TaskCost& other);

// Rounds to nanoseconds, at least 1; anything beyond 2^62 ns (146 years) becomes that.
TaskCost CostOfSeconds(double seconds, CostSource source, double spread = 0);

// A collective of devices group[0], group[1], .. as ranks 0, 1, ..
struct CollectiveCall {
  const Collective* collective = nullptr;  // valid collective, not null
  absl::string_view algorithm;             // a row of CollectiveAlgorithms()
  std::span<const DeviceId> group;
  DType dtype = DType::kFloat32;
  // The best price so far, where only a better one is of use (Beats): the answer may then be any
  // that is not better, instead of the exact one. Null: none.
  const TaskCost* to_beat = nullptr;
};

// One message of a group that starts together. The bytes of all boxes from one device to another.
struct TransferCall {
  DeviceId from;
  DeviceId to;
  int64_t bytes = 0;

  friend bool operator==(const TransferCall&, const TransferCall&) = default;
};

// Durations of tasks on a machine. Every function may return nullopt, "unknown"; a model that
// search or simulation uses must know all (end a FirstMatch with a roofline and a link model). The
// answer depends on the arguments only: the same question always gets the same answer. Const
// functions may be called from several threads at once.
//
// Lanes that share a core and transfers of different tasks that share a channel slow each other
// down: that is the simulator's part. Here every task has its device and its links to itself, and
// what else the node does is one of two extremes (TaskCost::time and uncontended).
class CostModel {
 public:
  virtual ~CostModel() = default;

  virtual std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                             DeviceId device) const = 0;
  virtual std::optional<TaskCost> MoveCost(const MoveSignature& signature,
                                           DeviceId device) const = 0;
  virtual std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const = 0;
  // All messages of one group, from the common start to the last arrival.
  virtual std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const = 0;

  // Whether no communication that it prices takes less than each channel of the routes needs for the
  // bytes that cross it, so that bytes alone bound times. True also where it prices none.
  virtual bool CountsBytesOfChannels() const { return false; }

  // The first device that is known to have the same prices of kernels and moves as this one.
  virtual DeviceId FirstEqual(DeviceId device) const { return device; }

  // Overhead of a step besides its tasks, from starting the lanes to knowing that all have ended;
  // `tasks`: of the device that has most. 0 if unknown.
  virtual Nanos StepOverhead(int64_t tasks) const;
};

}  // namespace partita
