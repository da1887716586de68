#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph/partition/exchange_tasks.h"

namespace partita {

// One tensor's exchange to be checked element by element.
struct ExchangeCase {
  Shape shape;
  DType dtype = DType::kRing64;
  int devices = 1;
  std::vector<Piece> pieces;
  std::vector<Demand> demands;
  std::vector<bool> persistent;  // by piece: its buffer must keep its value
  // By demand: a buffer that the caller chose, as for a weight's next value: -1 none, -2 one of its
  // own, otherwise a piece's (same box, device).
  std::vector<int> preset;
  ExchangeTaskOptions options;
  std::string algorithm;  // what options.algorithm always gives; empty: nothing
};

// Any pieces and demands: grids with reductions and replicas, arbitrary and empty boxes, and the
// regular patterns of training, on up to nine devices.
ExchangeCase RandomExchange(std::mt19937_64& random);

// Tasks of a case.
struct ExchangeOutcome {
  TaskGraph graph;
  std::map<std::string, int> patterns;  // "all_reduce", "broadcast", "transfers", ... -> tasks
};

// Makes the tasks, runs them in canonical order and in random orders that keep only the
// dependencies, and compares every demand with the definition: an element is the sum (or maximum)
// over the distinct terms that cover it, zero if there is none. The error names the first element
// that differs.
absl::StatusOr<ExchangeOutcome> CheckExchange(const ExchangeCase& c, std::mt19937_64& random);

// Makes the tasks for float32, runs them, and compares demands with each other: wherever an element
// is wanted it is the same, bit for bit, although its terms round when they are added. The error
// names the first element that differs.
absl::Status CheckFloatCopiesAgree(ExchangeCase c, std::mt19937_64& random);

// The case as text, for failures.
std::string ToString(const ExchangeCase& c);

}  // namespace partita
