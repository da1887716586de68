#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace partita {

// The length of the UTF-8 sequence that begins at `at`, or 0 if there is none. Over-long sequences
// and surrogates are none.
size_t Utf8Length(absl::string_view text, size_t at);

bool IsUtf8(absl::string_view text);

}  // namespace partita
