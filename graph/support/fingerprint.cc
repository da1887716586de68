#include "graph/support/fingerprint.h"

namespace partita {

Fingerprint& Fingerprint::Add(uint64_t value) {
  state_ = Mix64(state_ * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u);
  return *this;
}

Fingerprint& Fingerprint::Add(absl::string_view bytes) {
  Add(static_cast<uint64_t>(bytes.size()));
  uint64_t word = 0;
  int filled = 0;
  for (char c : bytes) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(c)) << (8 * filled);
    if (++filled == 8) {
      Add(word);
      word = 0;
      filled = 0;
    }
  }
  if (filled > 0) Add(word);
  return *this;
}

}  // namespace partita
