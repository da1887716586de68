#include <unistd.h>

#include <iostream>

#include "planner/search/search_algorithm.h"
#include "tools/cli/checks.h"
#include "tools/cli/process.h"
#include "tools/cli/verb.h"

namespace partita {

void AddModelFlags(CLI::App& verb, ModelRequest& request) {
  verb.add_option("model", request.model,
                  "an .onnx or .textproto file, or a zoo name (partita list models)")
      ->required()
      ->check(ModelName());
  verb.add_option("--batch", request.batch,
                  "samples in one step over all devices; default the model's own")
      ->check(WholeNumber(1, kLargestBatch));
  verb.add_option("--optimizer", request.optimizer, "sgd, nesterov, adam")
      ->check(NameOf("optimizer", {"sgd", "nesterov", "adam"}));
  verb.add_flag("--freeze_bn", request.freeze_batch_norm, "keep batch normalisation's statistics");
  verb.add_option("--loss", request.loss,
                  "cross_entropy: the output is class scores, whatever it looks like")
      ->check(NameOf("loss", {kCrossEntropyName}));
}

void AddMachineFlags(CLI::App& verb, MachineRequest& request, const std::string& standard,
                     const std::string& precision) {
  verb.add_option("--machine", request.machine,
                  "a name (partita list machines) or a file; default " + standard)
      ->check(MachineName());
  verb.add_option("--devices", request.devices, "take the first N devices")
      ->check(WholeNumber(1, kMostDevices));
  verb.add_flag("--oversubscribe", request.oversubscribe,
                "divide this host into more devices than it has cores: they share cores");
  verb.add_option("--profile", request.profile, "profile database")->check(PlaceName());
  AddBackendFlag(verb, request.backends,
                 "that runs the devices of a class, or all; default cuda for GPUs, cpu for cores");
  AddPrecisionFlag(verb, request.precision,
                   "of products on the devices that have it: float32, tf32, float16, bfloat16; "
                   "default " +
                       precision);
  verb.add_flag("--foreign_profile", request.foreign_profile, "use records of another machine");
}

void AddSearchFlags(CLI::App& verb, SearchFlags& flags) {
  verb.add_option("--search", flags.search, "search algorithm (partita list searches)")
      ->check(NameOf("search", NamesOf(SearchAlgorithms())));
  verb.add_option("--evaluations", flags.evaluations, "strategies to evaluate")
      ->check(WholeNumber(1));
  verb.add_option("--seed", flags.seed, "of the search")->check(Seed());
  verb.add_option("--time_limit", flags.time_limit, "seconds; the best so far is kept")
      ->check(NumberFrom(0));
}

void ShowProgress(const std::string& line) {
  InterruptIfUnheard();
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) std::cerr << "\r\033[K" << line.substr(0, 100) << std::flush;
}

void EndProgress() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) std::cerr << "\r\033[K" << std::flush;
}

}  // namespace partita
