#pragma once

#include <cstdint>
#include <limits>

#include "cost_model/cost_model.h"
#include "graph/graph.h"
#include "graph/task/kernel_signature.h"
#include "planner/bound/subject.h"

namespace partita {

// A time above all others, in nanoseconds.
inline constexpr int64_t kNoTime = std::numeric_limits<int64_t>::max();

// Prices that no task is below, in nanoseconds: whatever device runs it, whatever formats its
// tensors have and whatever runs beside it.
class LeastPrices {
 public:
  // The subject outlives this.
  explicit LeastPrices(const BoundSubject& subject) : subject_(subject) {}

  int64_t OfKernel(const KernelSignature& signature) const { return OfFormats(signature).time; }

  // Work of any number of tasks that together do it once: of all of them, and of any of them. From
  // prices at sizes by powers of two; of prices that are measured, three quarters, since those at
  // sizes in between may be less.
  struct Shared {
    int64_t all = 0, one = 0;
  };
  // Moves of so many elements within a device, each to a contiguous place from one.
  Shared OfMoving(MoveSignature::Kind kind, DType dtype, int64_t elements) const;
  // Loads of all of a tensor (IsLoaded).
  Shared OfLoading(const Tensor& tensor) const {
    return OfMoving(MoveSignature::Kind::kCopy, tensor.type.dtype, Volume(tensor.type.shape));
  }
  // The update of a weight that has these elements.
  Shared OfUpdate(const Graph& graph, const Operator& update) const;

 private:
  struct Price {
    int64_t time = kNoTime;
    bool is_measured = false;

    void Lower(const TaskCost& cost);
  };
  template <class PriceOfPart>
  static Shared OfParts(int64_t most, PriceOfPart price);
  Price OfFormats(const KernelSignature& signature) const;
  Price OfDevices(const KernelSignature& signature) const;

  const BoundSubject& subject_;
};

}  // namespace partita
