#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/algorithm_store.h"
#include "runtime/backend/cuda/plan/kernel_steps.h"
#include "runtime/backend/cuda/trial_device.h"

namespace partita {

// Temporary memory that a library's algorithm may take at most, in bytes: products, and
// convolutions, of which some are fastest by transforms of all their operands.
constexpr int64_t kMostProductWorkspace = int64_t{256} << 20;
constexpr int64_t kMostWorkspace = int64_t{2} << 30;
// The most where nothing is measured, and therefore no memory is tried.
constexpr int64_t kMostUntriedWorkspace = int64_t{256} << 20;

// Search for algorithms of one library on one device: in the store, or else by measuring. The store
// outlives it, as do the trials.
struct AlgorithmSearch {
  AlgorithmStore* store = nullptr;
  TrialDevice* trials = nullptr;  // null: nothing is measured
  std::string device;             // hardware, driver and library, with versions

  // The choice of a runner (of its type Choice) for `work`: the kept one if the runner's Parsed can
  // still use it, else the fastest of its Candidates, the first where nothing is measured, which is
  // kept as its TextOf says.
  template <class Runner>
  auto Choose(const Runner& runner, const std::string& work) const
      -> absl::StatusOr<typename Runner::Choice> {
    const std::optional<std::string> known = Find(work);
    if (known.has_value()) {
      if (const auto choice = runner.Parsed(*known)) return *choice;
    }
    ASSIGN_OR_RETURN(const auto candidates, runner.Candidates());
    auto choice = candidates[0];
    const auto trial = runner.MakeTrial(candidates);
    if (trial.has_value()) choice = runner.Fastest(candidates, *trial);
    return runner.Parsed(Keep(work, runner.TextOf(choice), known)).value_or(choice);
  }

  std::optional<std::string> Find(const std::string& work) const {
    return store->Find(device, work);
  }
  // The choice that is kept, which another device may have made. `found`: what Find gave; where it
  // gave anything, that was of no use and makes place.
  std::string Keep(const std::string& work, const std::string& choice,
                   const std::optional<std::string>& found) const {
    if (!found.has_value()) return store->Add({device, work, choice});
    store->Replace({device, work, choice});
    return choice;
  }
};

// Key in the store of a convolution or product.
std::string WorkOf(const ConvolutionShape& shape);
std::string WorkOf(const GemmShape& shape);
std::string KernelWorkOf(const KernelSignature& signature);

// The number after "NAME=" in a text of such words; nullopt without one in [0, most].
std::optional<int64_t> NumberNamed(absl::string_view name, absl::string_view text, int64_t most);

}  // namespace partita
