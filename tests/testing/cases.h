#pragma once

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

}  // namespace partita
