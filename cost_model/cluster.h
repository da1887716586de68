#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cost_model/catalogue.h"
#include "cost_model/machine.h"
#include "graph/support/option.h"

namespace partita {

// The bytes per second of "400Gb/s" (bits) or "25GB/s" (bytes), with k, M, G or T before the unit;
// nullopt for what is no rate above 0 and below 1 EB/s.
std::optional<int64_t> RateOf(absl::string_view text);
OptionCheck RateText();

// Alike nodes of alike accelerators (see catalogue.h) on a network of leaf and spine switches, by
// what a buyer knows; the rest has defaults.
struct ClusterRequest {
  int nodes = 1;
  int gpus = 8;
  std::string gpu = "h100-sxm";
  std::string link = "auto";
  std::string network = "400Gb/s";
  std::string fabric = "infiniband";
  std::optional<int> cards;
  int nodes_per_leaf = 32;
  double oversubscription = 1;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "nodes", .help = "nodes", .check = WholeNumber(1, 1 << 17)}, self.nodes);
    visit(Option{.name = "gpus", .help = "accelerators of a node", .check = WholeNumber(1, 1024)},
          self.gpus);
    visit(Option{.name = "gpu",
                 .help = "kind of accelerator (partita list accelerators)",
                 .check = NameOf("accelerator", NamesOf(AcceleratorModels()))},
          self.gpu);
    visit(Option{.name = "link",
                 .help = "what joins the accelerators of a node: auto, pairs, switch or pcie",
                 .check = NameOf("link", {"auto", "pairs", "switch", "pcie"}),
                 .fallback = "the fastest that the accelerator has"},
          self.link);
    visit(Option{.name = "network",
                 .help = "bandwidth of a network card: bits (400Gb/s) or bytes (50GB/s)",
                 .check = RateText()},
          self.network);
    visit(Option{.name = "fabric",
                 .help = "kind of network: infiniband or ethernet",
                 .check = NameOf("fabric", {"infiniband", "ethernet"})},
          self.fabric);
    visit(Option{.name = "cards",
                 .help = "network cards of a node",
                 .check = WholeNumber(1, 1024),
                 .fallback = "one for each accelerator with links of its own, otherwise one",
                 .type = "INT"},
          self.cards);
    visit(Option{.name = "nodes_per_leaf",
                 .help = "nodes under a leaf switch",
                 .check = WholeNumber(1, 1 << 17)},
          self.nodes_per_leaf);
    visit(Option{.name = "oversubscription",
                 .help =
                     "bandwidth into a leaf switch from below, as a multiple of that to the spine",
                 .check = NumberFrom(1)},
          self.oversubscription);
  }
};

// UsageError where the accelerators cannot be joined so, or cards do not divide them.
absl::StatusOr<Machine> MakeCluster(const ClusterRequest& request);

// Sets fields of a machine: "h100.matrix_flops=5e13", "leaf.latency_ns=2000", "gpu.memory_bytes=.."
// name a device class, a level or alike devices, and a field of it in the file's words
// (proto/machine.proto). UsageError with what is known where a name is not.
absl::StatusOr<Machine> WithSettings(const Machine& machine,
                                     const std::vector<std::string>& settings);

}  // namespace partita
