#pragma once

#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "graph/box.h"
#include "graph/sharding_rule.h"

namespace partita {

// Extent by which a part's window reaches over the tensor's ends in one dimension: the padding that
// its kernel adds. `after` is negative where the operand has a tail that no window reads
// (DimMap::slack).
struct Pads {
  int32_t before = 0;
  int32_t after = 0;

  constexpr Pads() = default;
  // Precondition: both are within kMaxExtent of 0, as those of all valid operators are.
  constexpr Pads(int64_t in_front, int64_t behind)
      : before(static_cast<int32_t>(in_front)), after(static_cast<int32_t>(behind)) {}
  friend bool operator==(const Pads&, const Pads&) = default;
};

// Region of an operand that one part reads, or of a result that it writes.
struct TensorView {
  bool present = false;  // false: the part does not read (or write) it at all
  Box box;               // global indices; may be empty
  absl::InlinedVector<Pads, 4> pads;
};

// One part of an operator: the block of every loop, and what follows from it.
struct PartView {
  std::vector<Interval> blocks;
  std::vector<TensorView> operands;
  std::vector<TensorView> results;
};

// The part of an operator with `rule` that computes `blocks`. `operands` and `results` are the
// whole tensors' shapes. Fails where a split product is not one interval.
absl::StatusOr<PartView> ViewPart(const ShardingRule& rule, std::span<const Shape> operands,
                                  std::span<const Shape> results, std::vector<Interval> blocks);

// Parts of one operator, one after the other: of what a part has in common with the one before, nothing
// is found again.
class PartViews {
 public:
  // The arguments outlive this.
  PartViews(const ShardingRule& rule, std::span<const Shape> operands,
            std::span<const Shape> results);

  // Finds the part that computes `blocks`. Fails as ViewPart does.
  absl::Status Find(std::span<const Interval> blocks);
  // The part that was found last.
  const PartView& view() const { return view_; }

 private:
  absl::Status FindTensors();
  absl::Status FindTensor(const std::vector<DimMap>& dims, LoopSet once, const Shape& shape,
                          TensorView& view) const;

  const ShardingRule& rule_;
  const std::span<const Shape> operands_, results_;
  PartView view_;
  bool is_new_ = true;  // whether nothing of the view is known
  LoopSet changed_;     // loops whose blocks are not those of the part before
};

// The whole operator as one part.
PartView ViewWhole(const ShardingRule& rule, std::span<const Shape> operands,
                   std::span<const Shape> results);

}  // namespace partita
