#include "planner/space/moves.h"

#include <algorithm>
#include <utility>

#include "graph/support/check.h"
#include "planner/space/stage_moves.h"

namespace partita {
namespace {

// The degrees along each dimension of the result; empty if a summed loop is split.
std::vector<int32_t> ResultDegrees(const ShardingRule& rule, const ParallelConfig& config) {
  std::vector<int32_t> degrees;
  int64_t parts = 1;
  for (const DimMap& map : rule.results[0].dims) {
    int32_t degree = 1;
    for (int8_t loop : map.loops) degree *= config.degrees[static_cast<size_t>(loop)];
    degrees.push_back(degree);
    parts *= degree;
  }
  return parts * config.replicas == PartCount(config) ? degrees : std::vector<int32_t>();
}

// The last loop of a dimension that is long enough; -1 if none is.
int LoopWithRoom(const ShardingRule& rule, const DimMap& map, int32_t degree) {
  for (size_t k = map.loops.size(); k-- > 0;) {
    const LoopDim& loop = rule.loops[static_cast<size_t>(map.loops[k])];
    if (loop.splittable && loop.extent >= degree) return map.loops[k];
  }
  return -1;
}

// The configuration of `anchor` that splits `dims`, of one of its operands or results, as wanted.
std::optional<ParallelConfig> SplitDims(const SearchSpace& space, OpId anchor,
                                        const std::vector<DimMap>& dims,
                                        const std::vector<int32_t>& wanted,
                                        const ParallelConfig& model) {
  const ShardingRule& rule = space.graph().rule(anchor);
  ParallelConfig config{std::vector<int32_t>(rule.loops.size(), 1), model.replicas, model.devices};
  for (size_t d = 0; d < std::min(wanted.size(), dims.size()); ++d) {
    const int loop = LoopWithRoom(rule, dims[d], wanted[d]);
    if (loop >= 0) config.degrees[static_cast<size_t>(loop)] = wanted[d];
  }
  if (PartCount(config) != static_cast<int64_t>(config.devices.size())) return std::nullopt;
  if (!space.Fits(anchor, config)) return std::nullopt;
  return config;
}

}  // namespace

ParallelConfig MovedOn(ParallelConfig config, int32_t by, int32_t devices) {
  for (DeviceId& device : config.devices) device = DeviceId((device.value() + by) % devices);
  return config;
}

std::optional<ParallelConfig> WithSameResultSplit(const SearchSpace& space, OpId from,
                                                  const ParallelConfig& model, OpId anchor) {
  const ShardingRule& rule = space.graph().rule(anchor);
  return SplitDims(space, anchor, rule.results[0].dims,
                   ResultDegrees(space.graph().rule(from), model), model);
}

std::optional<ParallelConfig> WithProducersBlocks(const SearchSpace& space, OpId from,
                                                  const ParallelConfig& model, OpId anchor) {
  const Graph& graph = space.graph();
  const std::vector<TensorId>& inputs = graph.op(anchor).inputs;
  const auto found = std::find(inputs.begin(), inputs.end(), graph.op(from).outputs[0]);
  if (found == inputs.end()) return std::nullopt;
  const auto operand = static_cast<size_t>(found - inputs.begin());
  return SplitDims(space, anchor, graph.rule(anchor).operands[operand].dims,
                   ResultDegrees(graph.rule(from), model), model);
}

namespace {

constexpr size_t kReach = 3;      // neighbours, in order, that a configuration is taken from
constexpr size_t kMostAlike = 6;  // operators or weights after one that follow suit at once

// Half of the time how many of the subjects after the `place`-th of `count` follow suit, which
// single steps could not reach through the cost of the mismatch.
size_t Followers(size_t place, size_t count, std::mt19937_64& random) {
  if (random() % 2 != 0) return 0;
  return std::min(1 + random() % kMostAlike, count - place - 1);
}

const ParallelConfig& ConfigOf(const Strategy& strategy, OpId op) {
  return strategy.configs[op.index()];
}

// A new configuration for the `place`-th operator; the operators after it follow suit as far as the
// configuration fits them.
std::vector<Decision> WithFollowers(const SearchSpace& space, size_t place, ParallelConfig config,
                                    std::mt19937_64& random) {
  const std::span<const OpId> operators = space.operators();
  const size_t followers = Followers(place, operators.size(), random);
  std::vector<Decision> decisions = {OperatorDecision{operators[place], config}};
  for (size_t k = place + 1; k <= place + followers; ++k) {
    auto copied = WithSameResultSplit(space, operators[place], config, operators[k]);
    if (!copied.has_value()) break;
    decisions.push_back(OperatorDecision{operators[k], *std::move(copied)});
  }
  return decisions;
}

std::vector<Decision> AnyConfig(const SearchSpace& space, const Strategy&,
                                std::mt19937_64& random) {
  const size_t place = random() % space.operators().size();
  return WithFollowers(space, place, space.RandomConfig(space.operators()[place], random), random);
}

std::vector<Decision> AsNeighbour(const SearchSpace& space, const Strategy& strategy,
                                  std::mt19937_64& random) {
  const std::span<const OpId> operators = space.operators();
  const size_t place = random() % operators.size();
  const size_t first = place < kReach ? 0 : place - kReach;
  const size_t end = std::min(place + kReach + 1, operators.size());
  const OpId other = operators[first + random() % (end - first)];
  auto copied = WithSameResultSplit(space, other, ConfigOf(strategy, other), operators[place]);
  if (!copied.has_value()) copied = space.RandomConfig(operators[place], random);
  return WithFollowers(space, place, *std::move(copied), random);
}

std::vector<Decision> AtOperand(const SearchSpace& space, const Strategy& strategy,
                                std::mt19937_64& random) {
  const Graph& graph = space.graph();
  const size_t place = random() % space.operators().size();
  const OpId op = space.operators()[place];
  const auto& inputs = graph.op(op).inputs;
  const auto producers = graph.producers(inputs[random() % inputs.size()]);
  std::optional<ParallelConfig> copied;
  if (!producers.empty() && graph.op(producers[0]).anchor == producers[0]) {
    copied = WithProducersBlocks(space, producers[0], ConfigOf(strategy, producers[0]), op);
  }
  if (!copied.has_value()) copied = space.RandomConfig(op, random);
  return WithFollowers(space, place, *std::move(copied), random);
}

// One configuration for all operators like one: any, or split and placed as one nearby.
std::vector<Decision> AllLike(const SearchSpace& space, const Strategy& strategy,
                              std::mt19937_64& random) {
  const std::span<const OpId> operators = space.operators();
  const size_t place = random() % operators.size();
  std::optional<ParallelConfig> config;
  if (random() % 2 == 0) {
    const size_t first = place < kReach ? 0 : place - kReach;
    const OpId other =
        operators[first + random() % (std::min(place + kReach + 1, operators.size()) - first)];
    config = WithSameResultSplit(space, other, ConfigOf(strategy, other), operators[place]);
  }
  if (!config.has_value()) config = space.RandomConfig(operators[place], random);
  std::vector<Decision> decisions;
  for (OpId op : space.AllLike(operators[place])) {
    if (space.Fits(op, *config)) decisions.push_back(OperatorDecision{op, *config});
  }
  return decisions;
}

ParallelConfig MovedAnywhere(const SearchSpace& space, ParallelConfig config,
                             std::mt19937_64& random) {
  const auto devices = static_cast<uint64_t>(space.devices());
  const uint64_t parts = config.devices.size();
  uint64_t by = 1 + random() % std::max<uint64_t>(1, devices - 1);
  if (parts < devices && random() % 4 != 0) by = parts * (1 + random() % (devices / parts));
  return MovedOn(std::move(config), static_cast<int32_t>(by), space.devices());
}

std::vector<Decision> OtherDevices(const SearchSpace& space, const Strategy& strategy,
                                   std::mt19937_64& random) {
  const size_t place = random() % space.operators().size();
  ParallelConfig config =
      MovedAnywhere(space, ConfigOf(strategy, space.operators()[place]), random);
  return WithFollowers(space, place, std::move(config), random);
}

// The operators of a recurrent layer split and placed as one of them, as far as that fits them, which
// has any configuration; its own on other devices; or that of an operator anywhere.
std::vector<Decision> WholeLayer(const SearchSpace& space, const Strategy& strategy,
                                 std::mt19937_64& random) {
  const std::span<const OpId> recurrent = space.recurrent();
  const OpId op = recurrent[random() % recurrent.size()];
  std::optional<ParallelConfig> config;
  switch (random() % 3) {
    case 0:
      config = MovedAnywhere(space, ConfigOf(strategy, op), random);
      break;
    case 1: {
      const OpId other = space.operators()[random() % space.operators().size()];
      config = WithSameResultSplit(space, other, ConfigOf(strategy, other), op);
      break;
    }
    default:
      break;
  }
  if (!config.has_value()) config = space.RandomConfig(op, random);
  std::vector<Decision> decisions;
  for (OpId member : space.LayerOf(op)) {
    auto copied = member == op ? config : WithSameResultSplit(space, op, *config, member);
    if (copied.has_value()) decisions.push_back(OperatorDecision{member, *std::move(copied)});
  }
  return decisions;
}

// Two operators split and placed as the other one is, or anyhow where that does not fit.
std::vector<Decision> Swapped(const SearchSpace& space, const Strategy& strategy,
                              std::mt19937_64& random) {
  const std::span<const OpId> operators = space.operators();
  const size_t a = random() % operators.size();
  const size_t b =
      (a + 1 + random() % std::max<size_t>(1, operators.size() - 1)) % operators.size();
  std::vector<Decision> decisions;
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const OpId like = operators[from], op = operators[to];
    auto config = WithSameResultSplit(space, like, ConfigOf(strategy, like), op);
    if (!config.has_value()) config = space.RandomConfig(op, random);
    decisions.push_back(OperatorDecision{op, *std::move(config)});
    if (a == b) break;
  }
  return decisions;
}

// Placements of a weight and of those that follow suit, drawn alike: by one seed.
std::vector<Decision> AnyPlacement(const SearchSpace& space, const Strategy&,
                                   std::mt19937_64& random) {
  const size_t place = random() % space.weights().size();
  const size_t followers = Followers(place, space.weights().size(), random);
  const uint64_t seed = random();
  std::vector<Decision> decisions;
  for (size_t k = place; k <= place + followers; ++k) {
    std::mt19937_64 same(seed);
    decisions.push_back(
        space.Random(SubjectOfWeight(static_cast<size_t>(space.weights()[k])), same));
  }
  return decisions;
}

bool HasOperators(const SearchSpace& space) { return !space.operators().empty(); }
bool HasDevices(const SearchSpace& space) { return HasOperators(space) && space.devices() > 1; }
bool HasStages(const SearchSpace& space) {
  return HasOperators(space) && space.devices() > kMostWithoutStages;
}
bool HasLayers(const SearchSpace& space) { return !space.recurrent().empty(); }
bool HasWeights(const SearchSpace& space) { return !space.weights().empty(); }

constexpr SearchMove kMoves[] = {
    {"any_config", 6, HasOperators, AnyConfig, "any configuration for an operator"},
    {"as_neighbour", 3, HasOperators, AsNeighbour,
     "an operator's result split and placed as that of one nearby"},
    {"at_operand", 3, HasOperators, AtOperand,
     "an operator's parts where the producer of an operand leaves their blocks"},
    {"all_like", 2, HasOperators, AllLike, "one configuration for all operators that are like one"},
    {"other_devices", 2, HasDevices, OtherDevices, "an operator's parts, on other devices"},
    {"whole_layer", 6, HasLayers, WholeLayer,
     "the operators of a recurrent layer, all steps, as one of them"},
    {"split_stage", 1, HasStages, SplitStage,
     "operators in a row on the same devices, those before a cut on half of them, the rest on the "
     "other half"},
    {"join_stages", 1, HasStages, JoinStages,
     "operators in a row on some devices, and those after them on as many others, on all of these"},
    {"swapped", 2, HasOperators, Swapped, "two operators' splits, each as the other's"},
    {"any_placement", 2, HasWeights, AnyPlacement,
     "a weight, or several alike, by default, or sharded as in ZeRO-2 or ZeRO-3"},
};

}  // namespace

std::span<const SearchMove> SearchMoves() { return kMoves; }

namespace {

const SearchMove& Draw(const SearchSpace& space, std::mt19937_64& random) {
  const auto share = [&](const SearchMove& move) { return move.applies(space) ? move.share : 0; };
  int all = 0;
  for (const SearchMove& move : kMoves) all += share(move);
  CHECK(all > 0) << "a space without subjects";
  auto left = static_cast<int>(random() % static_cast<uint64_t>(all));
  const SearchMove* chosen = kMoves;
  while ((left -= share(*chosen)) >= 0) ++chosen;
  return *chosen;
}

}  // namespace

std::optional<Proposal> Propose(const SearchSpace& space, const Strategy& strategy,
                                std::mt19937_64& random) {
  for (int draw = 0; draw < kMostDraws; ++draw) {
    const SearchMove& move = Draw(space, random);
    Proposal proposal{move.propose(space, strategy, random), &move};
    std::erase_if(proposal.decisions,
                  [&](const Decision& decision) { return !Changes(strategy, decision); });
    if (!proposal.decisions.empty()) return proposal;
  }
  return std::nullopt;
}

}  // namespace partita
