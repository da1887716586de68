#pragma once

#include <cstddef>
#include <vector>

namespace partita {

// Whether the program has sanitizers, with which it takes about ten times as long.
#ifdef PARTITA_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Number of a test's random cases: a quarter of them with sanitizers, which look at memory, not at
// results.
constexpr int CasesOf(int cases) { return kSanitized ? (cases + 3) / 4 : cases; }

// Those of a test's models, machines and the like: every fourth, from the first on, with sanitizers.
template <class T>
std::vector<T> CasesOf(const std::vector<T>& cases) {
  std::vector<T> taken;
  for (size_t k = 0; k < cases.size(); k += kSanitized ? 4 : 1) taken.push_back(cases[k]);
  return taken;
}

}  // namespace partita
