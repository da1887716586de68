#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/support/worker_threads.h"
#include "planner/search/elimination.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// How much of communication counts: all of it, or less where it overlaps with kernels.
inline constexpr double kCommunicationShares[] = {1, 0.5, 0};

// The additive model of a search problem (AdditiveCosts), as a choice of one candidate for each
// operator. The space's operators choose among: the configurations that the starts have for
// operators like them, and of those on the first devices and on all devices by copies, split evenly
// as many ways as divide the devices, along at most two loops on more than 8 devices, the best by
// themselves. Weights lie where they are read. All else is as in `base`, a start.
class AdditiveProgram {
 public:
  // All that is passed outlives this.
  AdditiveProgram(const SearchProblem& problem, const Strategy& base,
                  const std::function<bool()>& stop, WorkerThreads& threads);
  ~AdditiveProgram();

  // Prices candidates and exchanges, on all the threads. Where choices are found in much less time than
  // exchanges are priced, those that make sums are priced at least, all of them where they are few. False
  // where `stop`, asked in between by all threads, was true, here and below: then nothing else may be
  // asked.
  bool FindCosts();
  // Prices what is priced at least so far.
  bool PriceWhole();

  // Costs in nanoseconds where `share` of communication counts. `together`: like operators
  // (LikeClasses) share one choice, so that any number of repeated blocks is as quick as one;
  // otherwise each operator chooses by itself.
  ChoiceProblem ChoicesAt(double share, bool together) const;
  // Choices that cost least, by elimination (MinimizeChoices). Exchanges are priced whole where choices
  // have them that cost least by what is known so far; those with others cost no less. nullopt where
  // stopped.
  std::optional<Choices> LeastChoices(double share, bool together);
  Strategy StrategyOf(std::span<const int32_t> candidate, bool together) const;
  // Memory of each device, in bytes, that weights of one reader and their states take for certain;
  // only of devices where that may be too much.
  std::vector<ChoiceLimit> LimitsOf(bool together) const;

 private:
  class Maker;
  std::unique_ptr<Maker> maker_;
};

}  // namespace partita
