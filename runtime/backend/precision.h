#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/precision.h"
#include "graph/support/error_category.h"

namespace partita {

// A usage error for a backend that computes in float32 only.
inline absl::Status CheckFloat32(Precision precision, const char* backend) {
  if (precision == Precision::kFloat32) return absl::OkStatus();
  return UsageError(absl::StrCat("the ", backend, " backend computes in float32; ",
                                 RowOf(precision).name, " is for the GPUs of the cuda backend"));
}

}  // namespace partita
