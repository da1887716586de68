#include "runtime/executor/host_tensor.h"

#include "absl/strings/str_cat.h"

namespace partita {

absl::Status CheckHolds(const HostTensor& values, const TensorType& type, absl::string_view what) {
  const auto given = static_cast<int64_t>(values.bytes.size());
  if (values.dtype == type.dtype && given == type.bytes()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes ", type.bytes(), " bytes, ", Name(type.dtype),
                   ToString(type.shape), "; given were ", given, " of ", Name(values.dtype)));
}

}  // namespace partita
