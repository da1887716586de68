#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "graph/support/check.h"

namespace partita {

// The value of what a test takes for granted; ends the program with the error where it is none.
template <class T>
T Ok(absl::StatusOr<T> value) {
  CHECK(value.ok()) << value.status();
  return *std::move(value);
}

}  // namespace partita
