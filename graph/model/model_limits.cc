#include "graph/model/model_limits.h"

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"

namespace partita {

absl::StatusOr<int64_t> CheckedVolume(const Shape& shape) {
  int64_t volume = 1;
  for (int64_t extent : shape) {
    if (extent < 0 || extent > kMaxExtent) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", ToString(shape), " has extent ",
                                                     extent, "; valid are 0 to 2^31 - 1"));
    }
    if (extent > 0 && volume > kMaxElements / extent) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ToString(shape), " has more than 2^40 elements"));
    }
    volume *= extent;
  }
  return volume;
}

absl::Status CheckWithinLimits(const OpAttrs& attrs, std::span<const Shape> operands,
                               std::span<const Shape> results) {
  for (const Shape& shape : results) {
    if (auto volume = CheckedVolume(shape); !volume.ok()) return volume.status();
  }
  const double work =
      results.empty() ? 0 : WorkPerElement(attrs, operands) * ApproximateVolume(results.front());
  if (work <= kMaxMultiplyAdds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it takes ", work, " multiply-adds; at most ",
                                                 kMaxMultiplyAdds, " are accepted"));
}

}  // namespace partita
