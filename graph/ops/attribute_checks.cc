#include "graph/ops/attribute_checks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace partita {

absl::Status CheckAttribute(absl::string_view what, const std::vector<int64_t>& values,
                            size_t count, int64_t least) {
  bool valid = values.size() == count;
  for (int64_t value : values) valid = valid && value >= least && value < kAttributeLimit;
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " should be ", count, " numbers from ",
                                                 least, " to 2^31; found [",
                                                 absl::StrJoin(values, ","), "]"));
}

absl::Status CheckOperands(absl::string_view name, std::span<const TensorType> operands,
                           size_t least, size_t most) {
  if (operands.size() < least || operands.size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " wants ", least == most ? absl::StrCat(least) : absl::StrCat(least, " to ", most),
        " operands; found ", operands.size()));
  }
  for (const TensorType& type : operands) {
    if (type.dtype == DType::kInt32 || type.dtype != operands[0].dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " wants operands of one type of reals; found ", ToString(operands[0]),
                       " and ", ToString(type)));
    }
    if (type.shape.size() > kRankLimit) {
      return absl::InvalidArgumentError(absl::StrCat(name, " wants operands of rank ", kRankLimit,
                                                     " at most; found ", ToString(type)));
    }
  }
  return absl::OkStatus();
}

absl::Status RebatchCount(int64_t& count, const BatchChange& batch) {
  constexpr int64_t kMostElements = int64_t{1} << 40;
  if (count % batch.from != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its count ", count, " is no multiple of the batch ", batch.from));
  }
  if (__builtin_mul_overflow(count / batch.from, batch.to, &count) || count > kMostElements) {
    return absl::InvalidArgumentError(absl::StrCat("its count exceeds ", kMostElements));
  }
  return absl::OkStatus();
}

double ApproximateVolume(const Shape& shape) {
  double volume = 1;
  for (int64_t extent : shape) volume *= static_cast<double>(extent);
  return volume;
}

}  // namespace partita
