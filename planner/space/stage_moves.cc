#include "planner/space/stage_moves.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

namespace partita {
namespace {

// Ascending; none where a device has several parts.
std::vector<DeviceId> DevicesOf(const ParallelConfig& config) {
  std::vector<DeviceId> devices = config.devices;
  std::sort(devices.begin(), devices.end());
  if (std::adjacent_find(devices.begin(), devices.end()) != devices.end()) return {};
  return devices;
}

// The stage that the `place`-th of the operators by layer is of.
StrategyStage StageAround(const SearchSpace& space, const Strategy& strategy, size_t place) {
  const std::span<const OpId> operators = space.by_layer();
  const auto devices_at = [&](size_t k) {
    return DevicesOf(strategy.configs[operators[k].index()]);
  };
  StrategyStage stage{place, place + 1, devices_at(place)};
  if (stage.devices.empty()) return stage;
  while (stage.begin > 0 && devices_at(stage.begin - 1) == stage.devices) --stage.begin;
  while (stage.end < operators.size() && devices_at(stage.end) == stage.devices) ++stage.end;
  return stage;
}

// Operators of a strategy in the making on more or fewer devices.
class Resizer {
 public:
  // All outlive this. Degrees are tried from any one on; the first one, where `random` is null.
  Resizer(const SearchSpace& space, const Strategy& strategy, std::mt19937_64* random)
      : space_(space), strategy_(strategy), random_(random) {}

  // Puts operators [begin, end), by layer, on these devices; those that do not fit stay as they are.
  void Resize(size_t begin, size_t end, std::span<const DeviceId> devices) {
    for (size_t k = begin; k < end; ++k) {
      const OpId op = space_.by_layer()[k];
      auto resized = Resized(op, devices);
      if (resized.has_value()) decisions_.push_back(OperatorDecision{op, *std::move(resized)});
    }
  }

  std::vector<Decision> TakeDecisions() { return std::move(decisions_); }

 private:
  // The operator's configuration with one of its degrees, any that fits, twice as large or half as
  // large, on these devices in order.
  std::optional<ParallelConfig> Resized(OpId op, std::span<const DeviceId> devices) {
    const ParallelConfig& config = strategy_.configs[op.index()];
    const bool grows = devices.size() > config.devices.size();
    const size_t count = config.degrees.size() + 1,
                 first = random_ == nullptr ? 0 : (*random_)() % count;
    for (size_t k = 0; k < count; ++k) {
      ParallelConfig resized = config;
      const size_t place = (first + k) % count;
      const bool is_replicas = place == config.degrees.size();
      int32_t& degree = DegreeAt(resized, place);
      // Copies of all parts are worth little: only where there are some.
      const bool may_change = grows ? !is_replicas || degree > 1 : degree % 2 == 0;
      if (!may_change) continue;
      degree = grows ? degree * 2 : degree / 2;
      resized.devices.assign(devices.begin(), devices.end());
      if (space_.Fits(op, resized)) return resized;
    }
    return std::nullopt;
  }

  const SearchSpace& space_;
  const Strategy& strategy_;
  std::mt19937_64* const random_;
  std::vector<Decision> decisions_;
};

// The cut nearest in front of `cut` that keeps recurrent layers whole, or behind it where there is
// none; as it is where the stage is of one layer.
size_t CutOf(const SearchSpace& space, const StrategyStage& stage, size_t cut) {
  const auto is_inside = [&](size_t place) {
    const std::span<const OpId> layer = space.LayerOf(space.by_layer()[place]);
    return !layer.empty() && layer[0] != space.by_layer()[place];
  };
  size_t before = cut, behind = cut;
  while (before > stage.begin && is_inside(before)) --before;
  while (behind < stage.end && is_inside(behind)) ++behind;
  if (before > stage.begin) return before;
  return behind < stage.end ? behind : cut;
}

std::vector<Decision> SplitAt(const SearchSpace& space, const StrategyStage& stage, size_t cut,
                              Resizer resizer) {
  const size_t half = stage.devices.size() / 2;
  const size_t at = CutOf(space, stage, cut);
  const std::span<const DeviceId> devices = stage.devices;
  resizer.Resize(stage.begin, at, devices.first(half));
  resizer.Resize(at, stage.end, devices.last(half));
  return resizer.TakeDecisions();
}

// Not where the devices of one are none.
bool AreApart(const StrategyStage& a, const StrategyStage& b) {
  std::vector<DeviceId> common;
  std::set_intersection(a.devices.begin(), a.devices.end(), b.devices.begin(), b.devices.end(),
                        std::back_inserter(common));
  return common.empty() && !a.devices.empty() && !b.devices.empty();
}

bool CanSplit(const StrategyStage& stage) {
  return !stage.devices.empty() && stage.devices.size() % 2 == 0 && stage.end - stage.begin > 1;
}

}  // namespace

std::vector<StrategyStage> StagesOf(const SearchSpace& space, const Strategy& strategy) {
  std::vector<StrategyStage> stages;
  for (size_t k = 0; k < space.by_layer().size(); ++k) {
    std::vector<DeviceId> devices = DevicesOf(strategy.configs[space.by_layer()[k].index()]);
    if (!stages.empty() && !devices.empty() && stages.back().devices == devices) {
      stages.back().end = k + 1;
    } else {
      stages.push_back({k, k + 1, std::move(devices)});
    }
  }
  return stages;
}

bool HasStagesApart(const SearchSpace& space, const Strategy& strategy) {
  const std::vector<StrategyStage> stages = StagesOf(space, strategy);
  return std::adjacent_find(stages.begin(), stages.end(), AreApart) != stages.end();
}

std::vector<Decision> SplitStageAt(const SearchSpace& space, const Strategy& strategy,
                                   const StrategyStage& stage, size_t cut) {
  if (!CanSplit(stage)) return {};
  return SplitAt(space, stage, cut, Resizer(space, strategy, nullptr));
}

std::vector<Decision> ShiftStages(const SearchSpace& space, const Strategy& strategy,
                                  std::span<const StrategyStage, 2> stages, size_t cut) {
  const StrategyStage &first = stages[0], &second = stages[1];
  if (!AreApart(first, second) || first.devices.size() != second.devices.size()) return {};
  const size_t at = CutOf(space, {first.begin, second.end, {}}, cut);
  const std::vector<DeviceId>& devices = at < first.end ? second.devices : first.devices;
  std::vector<Decision> decisions;
  for (size_t k = std::min(at, first.end); k < std::max(at, first.end); ++k) {
    const OpId op = space.by_layer()[k];
    ParallelConfig config = strategy.configs[op.index()];
    config.devices = devices;
    if (space.Fits(op, config)) decisions.push_back(OperatorDecision{op, std::move(config)});
  }
  return decisions;
}

std::vector<Decision> SplitStage(const SearchSpace& space, const Strategy& strategy,
                                 std::mt19937_64& random) {
  const StrategyStage stage = StageAround(space, strategy, random() % space.operators().size());
  if (!CanSplit(stage)) return {};
  const size_t cut = stage.begin + 1 + random() % (stage.end - stage.begin - 1);
  return SplitAt(space, stage, cut, Resizer(space, strategy, &random));
}

std::vector<Decision> JoinStages(const SearchSpace& space, const Strategy& strategy,
                                 std::mt19937_64& random) {
  const size_t operators = space.operators().size();
  const StrategyStage first = StageAround(space, strategy, random() % operators);
  if (first.devices.empty() || first.end == operators) return {};
  const StrategyStage second = StageAround(space, strategy, first.end);
  if (second.devices.size() != first.devices.size()) return {};
  std::vector<DeviceId> devices;
  std::set_union(first.devices.begin(), first.devices.end(), second.devices.begin(),
                 second.devices.end(), std::back_inserter(devices));
  if (devices.size() != 2 * first.devices.size()) return {};
  Resizer resizer(space, strategy, &random);
  resizer.Resize(first.begin, second.end, devices);
  return resizer.TakeDecisions();
}

}  // namespace partita
