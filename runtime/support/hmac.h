#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace partita {

// HMAC-SHA256 (RFC 2104), by OpenSSL's libcrypto. Where the library fails, random bytes, which
// equal no text.
constexpr size_t kDigestBytes = 32;
std::string HmacSha256(absl::string_view key, absl::string_view text);

// Whether two texts are equal, in a time that only their sizes decide.
bool SameSecret(absl::string_view a, absl::string_view b);

// Random bytes from the system's generator for keys.
std::string RandomBytes(size_t bytes);

// Overwrites a secret that is no longer needed.
void Wipe(std::string& secret);
void Wipe(char* secret, size_t bytes);

}  // namespace partita
