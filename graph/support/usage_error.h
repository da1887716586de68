#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace partita {

// InvalidArgument that no file is to blame for but what was asked: a number or a combination of
// options that cannot be. Programs end with their code for wrong usage.
absl::Status UsageError(absl::string_view message);
bool IsUsageError(const absl::Status& status);

}  // namespace partita
