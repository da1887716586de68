#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace partita {

// Attributes come from model files. Bounded like this, no sum or product of a few of them and of a
// tensor's extents leaves 64 bits.
constexpr int64_t kAttributeLimit = int64_t{1} << 31;

// `values` are `count` numbers in [least, kAttributeLimit). `what` names them: "conv2d strides".
inline absl::Status CheckAttribute(absl::string_view what, const std::vector<int64_t>& values,
                                   size_t count, int64_t least) {
  bool valid = values.size() == count;
  for (int64_t value : values) valid = valid && value >= least && value < kAttributeLimit;
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " should be ", count, " numbers from ",
                                                 least, " to 2^31; found [",
                                                 absl::StrJoin(values, ","), "]"));
}

}  // namespace partita
