#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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

}  // namespace partita
