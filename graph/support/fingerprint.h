#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace partita {

// A 64-bit hash that is the same on every machine and in every run, unlike absl::Hash: for
// fingerprints of graphs and plans, and for the random keys of named operators. Not cryptographic.
class Fingerprint {
 public:
  Fingerprint& Add(uint64_t value);
  Fingerprint& Add(absl::string_view bytes);
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x243f6a8885a308d3u;
};

// The finaliser of splitmix64: a bijection of 64-bit integers that looks random.
constexpr uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

inline uint64_t FingerprintOf(absl::string_view bytes) { return Fingerprint().Add(bytes).value(); }

}  // namespace partita
