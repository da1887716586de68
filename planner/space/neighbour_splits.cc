#include "planner/space/neighbour_splits.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "planner/space/moves.h"

namespace partita {
namespace {

class SplitFinder {
 public:
  SplitFinder(const SearchSpace& space, const Strategy& strategy, OpId op)
      : space_(space), graph_(space.graph()), strategy_(strategy), op_(op) {}

  std::vector<ParallelConfig> Run() && {
    for (TensorId input : graph_.op(op_).inputs) {
      for (OpId maker : graph_.producers(input)) AddNeighbour(maker);
    }
    for (TensorId output : graph_.op(op_).outputs) {
      for (OpId reader : graph_.consumers(output)) AddNeighbour(reader);
    }
    AddOn(strategy_.configs[op_.index()].devices);
    return std::move(found_);
  }

 private:
  void AddNeighbour(OpId other) {
    const OpId anchor = graph_.op(other).anchor;
    if (anchor != other || anchor == op_) return;
    const ParallelConfig& model = strategy_.configs[anchor.index()];
    Add(WithProducersBlocks(space_, anchor, model, op_));
    Add(WithSameResultSplit(space_, anchor, model, op_));
    AddOn(model.devices);
  }

  // Copies on the devices, and splits along one loop over all of them.
  void AddOn(const std::vector<DeviceId>& devices) {
    const ShardingRule& rule = graph_.rule(op_);
    const auto count = static_cast<int32_t>(devices.size());
    const std::vector<int32_t> whole(rule.loops.size(), 1);
    Add(ParallelConfig{whole, count, devices});
    for (size_t l = 0; l < rule.loops.size(); ++l) {
      ParallelConfig config{whole, 1, devices};
      config.degrees[l] = count;
      Add(std::move(config));
    }
  }

  void Add(std::optional<ParallelConfig> config) {
    if (!config.has_value() || *config == strategy_.configs[op_.index()]) return;
    if (std::find(found_.begin(), found_.end(), *config) != found_.end()) return;
    if (space_.Fits(op_, *config)) found_.push_back(*std::move(config));
  }

  const SearchSpace& space_;
  const Graph& graph_;
  const Strategy& strategy_;
  const OpId op_;
  std::vector<ParallelConfig> found_;
};

}  // namespace

std::vector<ParallelConfig> NeighbourSplits(const SearchSpace& space, const Strategy& strategy,
                                            OpId op) {
  return SplitFinder(space, strategy, op).Run();
}

}  // namespace partita
