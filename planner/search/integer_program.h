#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/search/elimination.h"

namespace partita {

// Package that IntegerProgramChoices needs and this build lacks; null where it has it.
const char* IntegerProgramLacks();

// When to end, with the best so far.
struct IntegerProgramEnds {
  std::function<bool()> stop;  // may be empty
  int64_t nodes = 10'000;      // most nodes of the solver's tree
};

// Different choices that keep to the limits, the cheapest first, at most kMostIntegerSolutions;
// with `exact` at the first of them, whether it is proven that none cost less. Empty where none
// were found.
//
// An integer program, solved by COIN-OR CBC: one binary x[n, c] for each node and candidate, which
// sum to 1 over c, and for each edge one y[i, j] >= 0 for each pair, with sums over j equal to x[a,
// i] and over i to x[b, j], so that y is the product of both. The relaxation of that is exact on
// trees. First candidates are left out that another one of their node beats whatever all others are
// (Goldstein, Biophysical Journal 1994), and that use no less of any limit. Begins from the choices
// of MinimizeChoices, if they keep to the limits. Precondition: IntegerProgramLacks() is null.
std::vector<Choices> IntegerProgramChoices(const ChoiceProblem& problem,
                                           std::span<const ChoiceLimit> limits,
                                           const IntegerProgramEnds& ends);
inline constexpr size_t kMostIntegerSolutions = 4;

// Variables of the program before candidates are left out.
int64_t IntegerProgramSize(const ChoiceProblem& problem);

// For each node and candidate, whether it is left out. At least one of each node stays.
std::vector<std::vector<bool>> DominatedCandidates(const ChoiceProblem& problem,
                                                   std::span<const ChoiceLimit> limits);

bool KeepsTo(std::span<const ChoiceLimit> limits, std::span<const int32_t> candidate);

}  // namespace partita
