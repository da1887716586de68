#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/parallel/decision.h"
#include "graph/parallel/strategy.h"

namespace partita {

// `count` neighbouring devices, from `first` on.
std::vector<DeviceId> DeviceRange(int32_t first, int32_t count);
// The operator split along one loop over the devices, as many ways as the loop allows; whole on the
// first device if it has no such loop.
ParallelConfig SplitAlong(const ShardingRule& rule, int loop, const std::vector<DeviceId>& devices);
ParallelConfig BySample(const ShardingRule& rule, const std::vector<DeviceId>& devices);

// The degree of a loop or, behind all loops, the number of copies.
inline int32_t& DegreeAt(ParallelConfig& config, size_t place) {
  return place == config.degrees.size() ? config.replicas : config.degrees[place];
}

// Calls visit(degrees) for every split of the loops from `loop` on into at most `parts` parts; the
// degrees of those before stay as they are.
template <class Visit>
void ForEachDegrees(const ShardingRule& rule, int64_t parts, std::vector<int32_t>& degrees,
                    Visit& visit, size_t loop = 0) {
  if (loop == rule.loops.size()) return visit(degrees);
  const LoopDim& dim = rule.loops[loop];
  const int64_t most = dim.splittable ? std::min<int64_t>(dim.extent, parts) : 1;
  for (int64_t degree = 1; degree <= std::max<int64_t>(1, most); ++degree) {
    degrees[loop] = static_cast<int32_t>(degree);
    ForEachDegrees(rule, parts / degree, degrees, visit, loop + 1);
  }
  degrees[loop] = 1;
}

// The decisions that a search may make about a training graph on `devices` devices. All are valid:
// configurations by ValidateConfig, with every split product one interval for the operator and its
// helpers; layouts cover their weight. Const functions may be called from several threads at once.
class SearchSpace {
 public:
  // Says whether what lists or counts candidates is to end with those so far; may be empty.
  using Interrupted = std::function<bool()>;

  // Everything may change: the operators and the trained weights. The graph outlives the space.
  SearchSpace(const Graph& graph, int devices);
  // Only these subjects may: operators and weights, each once.
  SearchSpace(const Graph& graph, int devices, std::vector<DecisionSubject> subjects);

  const Graph& graph() const { return *graph_; }
  int devices() const { return devices_; }

  // The subjects that may be decided, in order.
  std::span<const DecisionSubject> subjects() const { return subjects_; }
  std::span<const OpId> operators() const { return operators_; }  // the operators among them
  std::span<const int32_t> weights() const { return weights_; }   // the weights among them
  // The operators that may be decided and are like this one of them, itself included (LikeClasses).
  std::span<const OpId> AllLike(OpId op) const;
  // The operators that may be decided of the recurrent layer of this one of them, itself included;
  // none where it is of none (RecurrentLayers). Those of all layers.
  std::span<const OpId> LayerOf(OpId op) const;
  std::span<const OpId> recurrent() const { return recurrent_; }
  // The operators that may be decided in order, but for those of a recurrent layer, which stand at the
  // first of them: its steps one after the other.
  std::span<const OpId> by_layer() const { return by_layer_; }
  // Whether every operator may change.
  bool whole() const { return operators_.size() == graph_->anchors().size(); }
  // The same space without these subjects.
  SearchSpace Without(std::span<const DecisionSubject> subjects) const;

  // A finite set of decisions about a subject, the one that an exhaustive search walks: the
  // operator's Configs, or the weight's Placements. Made anew by each call, and large for many
  // devices.
  std::vector<Decision> Candidates(DecisionSubject subject,
                                   const Interrupted& interrupted = nullptr) const;
  // How many those are; any number above `most` where they are more than that.
  int64_t CountCandidates(DecisionSubject subject, int64_t most,
                          const Interrupted& interrupted = nullptr) const;
  // Mesh-shaped configurations of an anchor: every way to split up to `devices` ways over its
  // loops, on the devices d, d+1, ... from every multiple of the number of parts on, with replicas
  // where parts are fewer than devices.
  std::vector<ParallelConfig> Configs(OpId anchor, const Interrupted& interrupted = nullptr) const;
  // Layouts of a weight: the default; and for every number of neighbouring devices, from every
  // multiple of it on, even shards of the update layout (ZeRO-2), or of both (ZeRO-3).
  std::vector<WeightPlacement> Placements(size_t weight) const;

  // Any decision about a subject: RandomConfig, or one of Placements with any prefetch distance up
  // to 2, half of the time over all devices.
  Decision Random(DecisionSubject subject, std::mt19937_64& random) const;
  // Any degrees, half of the time along one loop only; one time in four copied to the devices that
  // are left; three times in four on neighbouring devices as a candidate, otherwise on random
  // devices in any order, several parts on one at times.
  ParallelConfig RandomConfig(OpId anchor, std::mt19937_64& random) const;

  // A strategy with RandomConfig everywhere, weights and host as by default.
  Strategy RandomStrategy(std::mt19937_64& random) const;

  // Whether the configuration fits the anchor and all operators anchored to it.
  bool Fits(OpId anchor, const ParallelConfig& config) const;

 private:
  // Calls visit(degrees, first device, number of devices, replicas) for the anchor's Configs, until
  // ends().
  template <class Ends, class Visit>
  void ForEachConfig(OpId anchor, Ends ends, Visit visit) const;
  void FindLayers();
  ParallelConfig Draw(OpId anchor, std::mt19937_64& random) const;
  WeightPlacement RandomPlacement(size_t weight, std::mt19937_64& random) const;

  const Graph* graph_;
  int devices_;
  std::vector<DecisionSubject> subjects_;
  std::vector<OpId> operators_;
  std::vector<int32_t> weights_;
  std::vector<int32_t> class_of_;           // indexed by OpId: class of like operators, or -1
  std::vector<std::vector<OpId>> classes_;  // indexed by class
  std::vector<OpId> recurrent_, by_layer_;
  std::vector<int> layer_of_;              // indexed by OpId: recurrent layer, or -1; or empty
  std::vector<std::vector<OpId>> layers_;  // indexed by recurrent layer
  // Operators anchored to each OpId that split a product of loops, which may not stay one interval.
  // All others fit as soon as the anchor does.
  std::vector<std::vector<OpId>> doubtful_;
};

}  // namespace partita
