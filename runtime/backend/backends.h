#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/backend/backend.h"

namespace partita {

struct BackendRow {
  const char* name;
  std::unique_ptr<Backend> (*make)();  // null: not built into this program
  const char* description;
  const char* missing;           // reason if it is not built
  bool every_precision = false;  // true: takes all of kPrecisions; false: float32 only
};

// THE table of backends.
std::span<const BackendRow> Backends();

// Whether a backend of this name computes in a precision, here or on another machine.
bool HasPrecision(const std::string& backend, Precision precision);

// NotFound lists the valid names; Unavailable says why it does not run here.
absl::StatusOr<std::shared_ptr<const Backend>> MakeBackend(const std::string& name);

}  // namespace partita
