#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "graph/box.h"
#include "graph/reduction.h"
#include "graph/tensor.h"

namespace partita {

// Rule by which one operator splits. An operator is a nest of loops (einsum style); every dimension
// of an operand or result is a window over some of them. Legal splits, the region that each part
// reads and writes, what is summed between parts and which communication follows are all derived
// from this value; see graph/part_view.h.

using LoopList = absl::InlinedVector<int8_t, 3>;

// A set of loops, by index.
class LoopSet {
 public:
  constexpr LoopSet() = default;
  constexpr LoopSet(std::initializer_list<int> loops) {
    for (int loop : loops) Insert(loop);
  }
  constexpr void Insert(int loop) { bits_ |= uint32_t{1} << loop; }
  constexpr bool Contains(int loop) const { return (bits_ >> loop) & 1; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr LoopSet Without(LoopSet b) const { return FromBits(bits_ & ~b.bits_); }
  constexpr LoopSet Union(LoopSet b) const { return FromBits(bits_ | b.bits_); }
  friend constexpr bool operator==(LoopSet, LoopSet) = default;

 private:
  static constexpr LoopSet FromBits(uint32_t bits) {
    LoopSet set;
    set.bits_ = bits;
    return set;
  }
  uint32_t bits_ = 0;
};

struct LoopDim {
  std::string name;  // "n", "c", "oh", ...; operators that share an anchor match loops by name
  int64_t extent = 1;
  bool splittable = true;
  friend bool operator==(const LoopDim&, const LoopDim&) = default;
};

// One dimension of an operand or result: the indices [stride * i + lo, stride * i + hi), clipped to
// the tensor, where i is the mixed-radix index of `loops`, leading loop first. Without loops i is
// 0: a fixed window.
struct DimMap {
  LoopList loops;
  int64_t stride = 1;
  int64_t lo = 0;
  int64_t hi = 1;
  // The last block also takes what lies after the last window (the row that a strided window never
  // reaches), so that the unsplit operator reads its operand whole.
  bool slack = false;
  friend bool operator==(const DimMap&, const DimMap&) = default;
};

// Shorthands for rules: the dimension is one loop; a product of loops; whole, without a loop.
inline DimMap Along(int loop) { return {{static_cast<int8_t>(loop)}, 1, 0, 1, false}; }
inline DimMap Product(std::initializer_list<int> loops) {
  DimMap map;
  for (int loop : loops) map.loops.push_back(static_cast<int8_t>(loop));
  return map;
}
inline DimMap Fixed(int64_t lo, int64_t hi) { return {{}, 1, lo, hi, false}; }
inline DimMap Window(int loop, int64_t stride, int64_t lo, int64_t hi, bool slack = true) {
  return {{static_cast<int8_t>(loop)}, stride, lo, hi, slack};
}

struct OperandRule {
  std::vector<DimMap> dims;
  // True if only the first part along the summed loops that the operand does not have reads it (a
  // bias must be added once).
  bool once = false;
  bool differentiable = true;
  // Derived when the rule is finished: the loops along which `once` holds.
  LoopSet once_loops;
  friend bool operator==(const OperandRule&, const OperandRule&) = default;
};

struct ResultRule {
  std::vector<DimMap> dims;
  // Reduction of the values of parts that differ along summed loops.
  Reduction reduction = Reduction::kSum;
  // Loops along which only the first part has a result (the gradient of an operand that is read
  // once).
  LoopSet once_loops;
  friend bool operator==(const ResultRule&, const ResultRule&) = default;
};

struct ShardingRule {
  std::vector<LoopDim> loops;
  std::vector<OperandRule> operands;
  std::vector<ResultRule> results;

  // Fills in `once_loops`. To be called once by code that builds a rule without the builder.
  ShardingRule Finished() &&;

  // The loop of that name, or -1.
  int FindLoop(const std::string& name) const;
  friend bool operator==(const ShardingRule&, const ShardingRule&) = default;
};

// The loops that some dimension names.
LoopSet LoopsOf(const std::vector<DimMap>& dims);

// Operands and results, by index, of the forward operator that a gradient reads. It always reads
// the gradients of all results.
struct GradientReads {
  std::vector<int> operands;
  std::vector<int> results;
};

// The rule of "gradient with respect to operand k" of an operator with rule `forward`. Its operands
// are reads.operands, then reads.results, then the gradients of all results; its one result is the
// gradient of the operand, summed over the loops that the operand does not have.
ShardingRule GradientRule(const ShardingRule& forward, int operand, const GradientReads& reads);

// Checks a rule against the types it is for: ranks agree, loops exist, at most 31 loops, full
// extents map into the tensors. An error is a bug in an operator's rule; operator conformance tests
// call it.
absl::Status ValidateRule(const ShardingRule& rule, std::span<const TensorType> operands,
                          std::span<const TensorType> results);

// A half-open range [lo, hi) of indices that may lie outside of the tensor.
struct WideInterval {
  int64_t lo = 0;
  int64_t hi = 0;

  bool empty() const { return hi <= lo; }
  friend bool operator==(const WideInterval&, const WideInterval&) = default;
};

// The indices that `map` covers for the given block of every loop, before clipping; none if the
// block of one of its loops is empty. Fails, naming the loop, if a split product is not one
// interval.
absl::StatusOr<WideInterval> UnclippedInterval(const DimMap& map, const std::vector<LoopDim>& loops,
                                               std::span<const Interval> blocks);
// The same of a map of one loop, for its block.
inline WideInterval UnclippedInterval(const DimMap& map, Interval block) {
  if (block.empty()) return {map.lo, map.lo};
  return {map.stride * block.lo + map.lo, map.stride * (block.hi - 1) + map.hi};
}

std::string ToString(const ShardingRule& rule);

}  // namespace partita
