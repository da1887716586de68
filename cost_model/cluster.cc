#include "cost_model/cluster.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/parallel/levels.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

// What users rarely know has these values:
// - a step from device to device within a node passes two links to a switch, 1.5 us each, or one
//   link between the two, 3 us (as machines.cc has it for NVLink, with a kernel at each end);
// - InfiniBand with GPUDirect takes about 5 us from GPU to GPU (machines.cc), of which each of the
//   links to the card and to the switches has about a quarter; Ethernet with TCP about 50 us.

namespace partita {
namespace {

constexpr Nanos kPairLatency = Nanos(3000), kSwitchLatency = Nanos(1500);
constexpr Nanos kBusLatency = Nanos(1000), kSpineLatency = Nanos(500);

Nanos NetworkLatency(const ClusterRequest& request) {
  return request.fabric == "ethernet" ? Nanos(25'000) : Nanos(1250);
}

enum class NodeLink : uint8_t { kPairs, kSwitch, kBus };

// How the accelerators of a node are joined.
absl::StatusOr<NodeLink> NodeLinkOf(const ClusterRequest& request, const AcceleratorModel& model) {
  const bool in_pairs = request.gpus <= model.most_in_pairs;
  const bool on_switch = request.gpus <= model.most_on_switch;
  if (request.link == "pcie" || (request.link == "auto" && request.gpus == 1)) {
    return NodeLink::kBus;
  }
  if (request.link == "switch" || (request.link == "auto" && on_switch)) {
    if (on_switch) return NodeLink::kSwitch;
  } else if (request.link == "pairs" || (request.link == "auto" && in_pairs)) {
    if (in_pairs) return NodeLink::kPairs;
  } else if (std::max(model.most_in_pairs, model.most_on_switch) == 0) {
    return NodeLink::kBus;
  }
  return UsageError(absl::StrCat(
      "accelerators '", model.name, "' are joined in pairs up to ", model.most_in_pairs,
      " in a node and on a switch up to ", model.most_on_switch, "; wanted are ", request.gpus,
      " with --link ", request.link, ". Try fewer --gpus and more --nodes, or --link pcie"));
}

TopologyLevel LevelWith(std::string name, int count, LevelNetwork network) {
  return {.name = std::move(name), .count = count, .network = network};
}

TopologyLevel Wired(TopologyLevel level, int64_t bytes_per_second, Nanos latency) {
  level.bytes_per_second = bytes_per_second;
  level.latency = latency;
  return level;
}

// Within a node: as many ports lead out of it as it has cards, or one.
std::vector<TopologyLevel> LevelsOfNode(const ClusterRequest& request,
                                        const AcceleratorModel& model, NodeLink link, int cards) {
  const int64_t bus = model.bus_bytes_per_second;
  if (link == NodeLink::kBus) {
    return {Wired(LevelWith("host", request.gpus, LevelNetwork::kTree), bus, kBusLatency)};
  }
  const int per_card = request.nodes > 1 ? request.gpus / cards : 1;
  std::vector<TopologyLevel> levels;
  if (request.nodes > 1) {
    levels.push_back(Wired(LevelWith("card", per_card, LevelNetwork::kTree), bus, kBusLatency));
  }
  int groups = request.nodes > 1 ? cards : request.gpus;
  const int on_host = model.most_on_host;
  if (on_host > 0 && request.gpus > on_host && request.gpus % on_host == 0 && per_card == 1) {
    levels.push_back(LevelWith("host", on_host, LevelNetwork::kNone));
    levels.back().is_node = true;
    groups = request.gpus / on_host;
  }
  if (link == NodeLink::kSwitch) {
    levels.push_back(Wired(LevelWith("switch", groups, LevelNetwork::kCrossbar),
                           model.switch_bytes_per_second, kSwitchLatency));
  } else {
    levels.push_back(Wired(LevelWith("pair", groups, LevelNetwork::kAllPairs),
                           model.pair_bytes_per_second, kPairLatency));
  }
  return levels;
}

// Leaves with a rail for each port of a node, and a spine where they are several.
void AddNetwork(const ClusterRequest& request, int ports, int64_t port_rate,
                std::vector<TopologyLevel>& levels) {
  const int under_leaf = std::min(request.nodes, request.nodes_per_leaf);
  const int leaves = (request.nodes - 1) / under_leaf + 1;
  levels.push_back(Wired(LevelWith("leaf", under_leaf, LevelNetwork::kTree), port_rate,
                         NetworkLatency(request)));
  levels.back().rails = ports;
  if (ports == 1 && leaves == 1) return;
  const double up = static_cast<double>(port_rate) * under_leaf / request.oversubscription;
  levels.push_back(Wired(LevelWith("spine", leaves, LevelNetwork::kTree),
                         std::max<int64_t>(1, std::llround(up)), kSpineLatency));
}

std::string DescriptionOf(const ClusterRequest& request, const AcceleratorModel& model, int cards) {
  std::string text = absl::StrCat(request.nodes, request.nodes == 1 ? " node of " : " nodes of ",
                                  request.gpus, " ", model.description);
  if (request.nodes == 1) return text;
  absl::StrAppend(&text, ", ", cards, " x ", request.network, " ", request.fabric, " each");
  if (request.oversubscription > 1 && request.nodes > request.nodes_per_leaf) {
    absl::StrAppend(&text, ", ", request.oversubscription, ":1 over-subscribed above ",
                    request.nodes_per_leaf, " nodes");
  }
  return text;
}

}  // namespace

std::optional<int64_t> RateOf(absl::string_view text) {
  constexpr std::pair<absl::string_view, double> kUnits[] = {{"b/s", 1.0 / 8}, {"B/s", 1}};
  constexpr std::pair<absl::string_view, double> kPrefixes[] = {
      {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  double factor = 0;
  for (const auto& [unit, bytes] : kUnits) {
    if (factor == 0 && absl::ConsumeSuffix(&text, unit)) factor = bytes;
  }
  for (const auto& [prefix, times] : kPrefixes) {
    if (absl::ConsumeSuffix(&text, prefix)) {
      factor *= times;
      break;
    }
  }
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) return std::nullopt;
  const double rate = number * factor;
  if (!(rate >= 1 && rate < 1e18)) return std::nullopt;
  return std::llround(rate);
}

OptionCheck RateText() {
  const auto fault = [](const std::string& text) -> std::string {
    if (RateOf(text).has_value()) return "";
    return absl::StrCat("'", text,
                        "' is no bandwidth; wanted a number above 0 and a unit, as "
                        "400Gb/s or 50GB/s");
  };
  return {fault, {"100Gb/s", "12.5GB/s"}};
}

absl::StatusOr<Machine> MakeCluster(const ClusterRequest& request) {
  const AcceleratorModel* model = FindAccelerator(request.gpu);
  const std::optional<int64_t> card_rate = RateOf(request.network);
  if (model == nullptr || !card_rate.has_value()) {
    return UsageError(absl::StrCat("wanted are an accelerator of the table and a bandwidth, not '",
                                   request.gpu, "' and '", request.network, "'"));
  }
  ASSIGN_OR_RETURN(const NodeLink link, NodeLinkOf(request, *model));
  const bool is_bus = link == NodeLink::kBus;
  const int cards = request.cards.value_or(is_bus ? 1 : request.gpus);
  if (cards < 1 || (!is_bus && request.gpus % cards != 0)) {
    return UsageError(absl::StrCat(cards, " network cards cannot be divided evenly among ",
                                   request.gpus, " accelerators. Try a --cards that divides ",
                                   request.gpus));
  }
  TopologyLevels levels;
  levels.levels = LevelsOfNode(request, *model, link, cards);
  const auto is_node = [](const TopologyLevel& level) { return level.is_node; };
  if (std::none_of(levels.levels.begin(), levels.levels.end(), is_node)) {
    levels.levels.back().is_node = true;
  }
  if (request.nodes > 1) {
    // The cards of a host are one port of their bandwidths' sum.
    AddNetwork(request, is_bus ? 1 : cards, *card_rate * (is_bus ? cards : 1), levels.levels);
  }
  const int64_t count = int64_t{request.nodes} * request.gpus;
  levels.devices.push_back(
      {{.name = "gpu",
        .kind = DeviceKind::kGpu,
        .device_class = std::string(model->device_class),
        .memory = Bytes(model->memory_bytes)},
       static_cast<int>(std::min<int64_t>(count, std::numeric_limits<int>::max()))});
  Machine machine{.name = absl::StrCat(model->device_class, "-", request.nodes, "x", request.gpus),
                  .description = DescriptionOf(request, *model, cards)};
  auto topology = DeviceTopology::Create(std::move(levels));
  if (!topology.ok()) return UsageError(topology.status().message());
  machine.topology = *std::move(topology);
  machine.classes.push_back(ClassOf(*model));
  RETURN_IF_ERROR(Validate(machine));
  return machine;
}

}  // namespace partita
