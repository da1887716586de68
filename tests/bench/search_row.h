#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/pods/pod_problem.h"
#include "tests/bench/best_known.h"

namespace partita {

// Options of a case's measurement, a row of the table.
struct SearchRowOptions {
  int proposals = 400;  // 0: none
  int warm_up = 400;    // proposals that are not counted
  double beta = 200;    // at first (ProposalChain::WarmUp)
  std::string search = "auto";
  int64_t evaluations = 1000;  // of each search; 0: none
  uint64_t seed = 0;           // of the first search
  int seeds = 1;               // searches
  // Searches that follow, one after another, each from the best strategy that was found before it, with
  // so many evaluations. For machines that are not searched by pods.
  std::vector<std::string> warm_searches;
  int64_t warm_evaluations = 10000;
  int whole_devices = kMostDevicesSearched;  // machines of more are searched by pods
  double seconds = 300;  // of the wall clock: what is not done by then is left out
};

// Measures a case and hands each figure on by its name as soon as it is known; a later one takes
// the place of an earlier one. Times are of the processor. Names:
//   pod_devices  of machines that are searched by pods: those of the pods whose proposals are timed
//   starts_s     making the experts' strategies and evaluating them
//   data_parallel_ns, expert_ns  steps of data parallelism and of the best expert; 0: do not
//                fit, or not known in time
//   base_ns      the step of data parallelism, whether it fits in memory or not
//   bound_ns, bound_s            lower bound, and what it took
//   early_mean_us, early_median_us, early_p99_us  proposals as a search evaluates them
//   complete_mean_us, complete_median_us          the same to the end, with empty caches
//   proposals, tasks, accepted, bounded, cached   see ProposalChain
//   step_ns, step_seed   the fastest step that the searches found, and the seed that did
//   warm_ns, warm_index  the fastest step that warm searches found, where it is faster than step_ns, and
//                        which of them did
//   known_ns             the best known step, or the fastest of these
//   seeds, near_seeds    searches; those that ended within 1 % of the best known
//   near_s, end_s        the longest time until then, and to the end
//   interrupted          1: the time limit ended a search
// `phase` gets the name of what begins.
void MeasureSearchRow(const BestKnownCase& of, const SearchRowOptions& options,
                      const BestKnown& known,
                      const std::function<void(const std::string&, double)>& figure,
                      const std::function<void(const std::string&)>& phase);

}  // namespace partita
