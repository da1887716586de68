#include "graph/parallel/parts.h"

#include <algorithm>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::Status Named(const Operator& op, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat("operator '", op.name, "': ", status.message()));
}

// For each loop of the operator, the anchor's loop of that name, or -1.
std::vector<int> MatchLoops(const ShardingRule& own, const ShardingRule& anchor) {
  std::vector<int> match;
  for (const LoopDim& loop : own.loops) match.push_back(anchor.FindLoop(loop.name));
  return match;
}

// Degrees of the operator's own loops; `match`: MatchLoops.
std::vector<int32_t> OwnDegrees(std::span<const int> match, const ParallelConfig& config) {
  std::vector<int32_t> degrees;
  for (int m : match) {
    degrees.push_back(m < 0 ? 1 : config.degrees[static_cast<size_t>(m)]);
  }
  return degrees;
}

// Whether UnclippedInterval has an interval for every block of these dimensions.
bool AreIntervals(const std::vector<DimMap>& dims, const std::vector<LoopDim>& loops,
                  std::span<const int32_t> degrees) {
  for (const DimMap& dim : dims) {
    bool open = false;  // whether a loop so far has a block of several indices
    for (int8_t loop : dim.loops) {
      const auto l = static_cast<size_t>(loop);
      if (open && degrees[l] > 1 && loops[l].extent > 1) return false;
      open |= degrees[l] < loops[l].extent;
    }
  }
  return true;
}

bool HasResult(const PartView& view) {
  for (const TensorView& result : view.results) {
    if (result.present && !result.box.empty()) return true;
  }
  return false;
}

bool IsSample(const std::vector<int32_t>& digit, const std::vector<int32_t>& degrees) {
  for (size_t l = 0; l < digit.size(); ++l) {
    if (digit[l] > 1 && digit[l] + 1 < degrees[l]) return false;
  }
  return true;
}

void MarkCopies(std::vector<Part>& parts) {
  absl::flat_hash_map<int32_t, int32_t> counts;  // by term
  for (const Part& part : parts) ++counts[part.term];
  if (counts.size() == parts.size()) return;
  for (Part& part : parts) part.is_copy = counts[part.term] > 1;
}

absl::StatusOr<std::vector<Part>> SomePartsOf(const Graph& graph, const Operator& op,
                                              const ParallelConfig& config, bool are_all) {
  const ShardingRule& rule = graph.rule(op.id);
  const ShardingRule& anchor = graph.rule(op.anchor);
  const std::vector<int> match = MatchLoops(rule, anchor);
  const std::vector<int32_t> degrees = OwnDegrees(match, config);
  const std::vector<Shape> inputs = graph.InputShapes(op);
  const std::vector<Shape> outputs = graph.OutputShapes(op);
  std::vector<Part> parts;
  // Device and term; not asked where each device comes once.
  absl::flat_hash_set<std::pair<int32_t, int32_t>> seen;
  const bool may_repeat =
      std::ranges::adjacent_find(config.devices, std::greater_equal<>()) != config.devices.end();
  if (are_all) {
    parts.reserve(config.devices.size());
    if (may_repeat) seen.reserve(config.devices.size());
  }
  std::vector<int32_t> digit(anchor.loops.size());
  PartViews views(rule, inputs, outputs);
  std::vector<Interval> blocks;
  for (size_t p = 0; p < config.devices.size(); ++p) {
    int64_t rest = static_cast<int64_t>(p);
    for (size_t l = anchor.loops.size(); l-- > 0;) {
      digit[l] = static_cast<int32_t>(rest % config.degrees[l]);
      rest /= config.degrees[l];
    }
    if (!are_all && !IsSample(digit, config.degrees)) continue;
    blocks.clear();
    int32_t term = 0;
    for (size_t l = 0; l < rule.loops.size(); ++l) {
      const int32_t degree = degrees[l];
      const int32_t index = match[l] < 0 ? 0 : digit[static_cast<size_t>(match[l])];
      blocks.push_back(BlockOf(rule.loops[l].extent, degree, index));
      term = term * degree + index;
    }
    if (may_repeat && !seen.insert({config.devices[p].value(), term}).second) continue;
    if (const absl::Status status = views.Find(blocks); !status.ok()) return Named(op, status);
    if (!HasResult(views.view())) continue;
    parts.push_back({static_cast<int32_t>(p), config.devices[p], term, views.view()});
  }
  int64_t terms = 1;
  for (int32_t degree : degrees) terms *= degree;
  if (static_cast<int64_t>(config.devices.size()) > terms) MarkCopies(parts);
  return parts;
}

}  // namespace

absl::StatusOr<std::vector<Part>> PartsOf(const Graph& graph, const Operator& op,
                                          const ParallelConfig& config) {
  return SomePartsOf(graph, op, config, true);
}

bool HasParts(const Graph& graph, const Operator& op, const ParallelConfig& config) {
  const ShardingRule& rule = graph.rule(op.id);
  const std::vector<int32_t> degrees = OwnDegrees(MatchLoops(rule, graph.rule(op.anchor)), config);
  const auto fits = [&](const auto& tensor) {
    return AreIntervals(tensor.dims, rule.loops, degrees);
  };
  return std::all_of(rule.operands.begin(), rule.operands.end(), fits) &&
         std::all_of(rule.results.begin(), rule.results.end(), fits);
}

absl::StatusOr<std::vector<Part>> SamplePartsOf(const Graph& graph, const Operator& op,
                                                const ParallelConfig& config) {
  return SomePartsOf(graph, op, config, false);
}

absl::StatusOr<std::vector<Part>> UpdateParts(const Graph& graph, const Operator& op,
                                              const std::vector<PlacedBox>& update_layout) {
  const ShardingRule& rule = graph.rule(op.id);
  const std::vector<Shape> inputs = graph.InputShapes(op);
  const std::vector<Shape> outputs = graph.OutputShapes(op);
  std::vector<Part> parts;
  parts.reserve(update_layout.size());
  PartViews views(rule, inputs, outputs);
  for (size_t p = 0; p < update_layout.size(); ++p) {
    const PlacedBox& piece = update_layout[p];
    if (const absl::Status status = views.Find(piece.box.dims()); !status.ok()) {
      return Named(op, status);
    }
    parts.push_back({static_cast<int32_t>(p), piece.device, 0, views.view()});
  }
  return parts;
}

std::vector<std::vector<OpId>> FollowersOf(const Graph& graph) {
  std::vector<std::vector<OpId>> followers(graph.ops().size());
  for (const Operator& op : graph.ops()) {
    if (op.anchor != kNoOp) followers[op.anchor.index()].push_back(op.id);
  }
  return followers;
}

}  // namespace partita
