#include "graph/support/utf8.h"

#include <cstdint>

namespace partita {

size_t Utf8Length(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0;
  };
  const auto tail = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xc2 && byte(0) < 0xe0 && tail(1)) return 2;
  if ((byte(0) & 0xf0) == 0xe0 && tail(1) && tail(2)) {
    const int code = (byte(0) & 0xf) << 12 | (byte(1) & 0x3f) << 6;
    return code >= 0x800 && (code < 0xd800 || code >= 0xe000) ? 3 : 0;
  }
  if (byte(0) >= 0xf0 && byte(0) < 0xf5 && tail(1) && tail(2) && tail(3)) {
    const int code = (byte(0) & 7) << 18 | (byte(1) & 0x3f) << 12;
    return code >= 0x10000 && code < 0x110000 ? 4 : 0;
  }
  return 0;
}

bool IsUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

}  // namespace partita
