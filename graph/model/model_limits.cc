#include "graph/model/model_limits.h"

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

double Product(const Shape& shape) {
  double product = 1;
  for (int64_t extent : shape) product *= static_cast<double>(extent);
  return product;
}

// Multiply-adds, comparisons or additions for one element of the first result.
double WorkPerElement(const OpAttrs& attrs, std::span<const Shape> operands) {
  if (const auto* pool = std::get_if<Pool2d>(&attrs)) {
    double window = 1;
    for (int64_t extent : pool->kernel) window *= static_cast<double>(extent);
    return window;
  }
  if (const auto* lrn = std::get_if<Lrn>(&attrs)) return static_cast<double>(lrn->size);
  const bool product =
      std::holds_alternative<Conv2d>(attrs) || std::holds_alternative<MatMul>(attrs);
  if (!product || operands.size() < 2 || operands[1].empty()) return 1;
  // A weight's volume without its result channels.
  const auto* matmul = std::get_if<MatMul>(&attrs);
  const int64_t out = matmul && !matmul->transposed ? operands[1].back() : operands[1].front();
  return out > 0 ? Product(operands[1]) / static_cast<double>(out) : 0;
}

}  // namespace

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
      results.empty() ? 0 : WorkPerElement(attrs, operands) * Product(results.front());
  if (work <= kMaxMultiplyAdds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it takes ", work, " multiply-adds; at most ",
                                                 kMaxMultiplyAdds, " are accepted"));
}

}  // namespace partita
