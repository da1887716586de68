#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/ops/operator_concept.h"
#include "graph/tensor.h"

namespace partita {

// Attributes come from model files. Bounded like this, no sum or product of a few of them and of a
// tensor's extents leaves 64 bits.
constexpr int64_t kAttributeLimit = int64_t{1} << 31;

// Every dimension may be a loop, of which a rule has at most 31.
constexpr size_t kRankLimit = 12;

// `values` are `count` numbers in [least, kAttributeLimit). `what` names them: "conv2d strides".
absl::Status CheckAttribute(absl::string_view what, const std::vector<int64_t>& values,
                            size_t count, int64_t least);

// An operator that has from `least` to `most` operands, all of one type of real numbers and of
// bounded rank.
absl::Status CheckOperands(absl::string_view name, std::span<const TensorType> operands,
                           size_t least, size_t most);

// `count`, of elements in the whole batch, for another batch; InvalidArgument if it is no multiple
// of the batch or becomes more than 2^40.
absl::Status RebatchCount(int64_t& count, const BatchChange& batch);

// The product of a shape's extents, also where it leaves 64 bits.
double ApproximateVolume(const Shape& shape);

}  // namespace partita
