#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace partita {

// The SHA-256 of bytes (FIPS 180-4) as 64 lower-case hexadecimal digits, as sha256sum prints it.
// ResourceExhausted where the library finds no memory.
absl::StatusOr<std::string> Sha256Of(absl::string_view bytes);

}  // namespace partita
