#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/tensor.h"

namespace partita {

// Elements of a host tensor, row-major: the caller's memory, of `dtype`.
struct HostTensor {
  DType dtype = DType::kFloat32;
  std::span<const std::byte> bytes = {};
};

inline HostTensor HostTensorOf(std::span<const float> values) {
  return {DType::kFloat32, std::as_bytes(values)};
}
inline HostTensor HostTensorOf(std::span<const int32_t> values) {
  return {DType::kInt32, std::as_bytes(values)};
}

// InvalidArgument, naming `what` they should be, unless the values are all elements of the type.
absl::Status CheckHolds(const HostTensor& values, const TensorType& type, absl::string_view what);

}  // namespace partita
