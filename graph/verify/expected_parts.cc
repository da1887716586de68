#include "graph/verify/expected_parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// How many blocks each loop of the operator has: as many as the anchor's loop of that name.
std::vector<int32_t> Degrees(const Graph& graph, const Operator& op, const ParallelConfig& config) {
  const ShardingRule& anchor = graph.rule(op.anchor);
  std::vector<int32_t> degrees;
  for (const LoopDim& loop : graph.rule(op.id).loops) {
    const int match = anchor.FindLoop(loop.name);
    degrees.push_back(match < 0 ? 1 : config.degrees[static_cast<size_t>(match)]);
  }
  return degrees;
}

// The blocks of the loops with that number.
std::vector<Interval> BlocksOf(const ShardingRule& rule, const std::vector<int32_t>& degrees,
                               int64_t number) {
  std::vector<Interval> blocks(rule.loops.size());
  for (size_t l = rule.loops.size(); l-- > 0;) {
    blocks[l] = BlockOf(rule.loops[l].extent, degrees[l], number % degrees[l]);
    number /= degrees[l];
  }
  return blocks;
}

bool HasResult(const PartView& view) {
  return std::any_of(view.results.begin(), view.results.end(), [](const TensorView& result) {
    return result.present && !result.box.empty();
  });
}

// Along every loop the blocks follow each other from 0 to the extent.
absl::Status CheckTiling(const Operator& op, const ShardingRule& rule,
                         const std::vector<int32_t>& degrees) {
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    int64_t end = 0;
    for (int32_t k = 0; k < degrees[l]; ++k) {
      const Interval block = BlockOf(rule.loops[l].extent, degrees[l], k);
      if (block.lo != end) {
        return absl::InternalError(absl::StrCat("operator '", op.name, "': blocks of loop '",
                                                rule.loops[l].name, "' leave a gap at ", end));
      }
      end = block.hi;
    }
    if (end != rule.loops[l].extent) {
      return absl::InternalError(absl::StrCat("operator '", op.name, "': blocks of loop '",
                                              rule.loops[l].name, "' end at ", end));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t BlockOfPart(const Graph& graph, const Operator& op, const ParallelConfig& config,
                    int32_t part) {
  const ShardingRule& anchor = graph.rule(op.anchor);
  std::vector<int32_t> index(anchor.loops.size());
  for (size_t l = anchor.loops.size(); l-- > 0;) {
    index[l] = part % config.degrees[l];
    part /= config.degrees[l];
  }
  int64_t number = 0;
  for (const LoopDim& loop : graph.rule(op.id).loops) {
    const int match = anchor.FindLoop(loop.name);
    if (match < 0) continue;
    const auto m = static_cast<size_t>(match);
    number = number * config.degrees[m] + index[m];
  }
  return number;
}

absl::StatusOr<std::vector<ExpectedPart>> ExpectedParts(const Graph& graph, const Operator& op,
                                                        const ParallelConfig& config) {
  const ShardingRule& rule = graph.rule(op.id);
  const std::vector<int32_t> degrees = Degrees(graph, op, config);
  RETURN_IF_ERROR(CheckTiling(op, rule, degrees));
  int64_t blocks = 1;
  for (int32_t degree : degrees) blocks *= degree;
  const std::vector<Shape> inputs = graph.InputShapes(op), outputs = graph.OutputShapes(op);
  std::vector<ExpectedPart> parts(static_cast<size_t>(blocks));
  for (int64_t b = 0; b < blocks; ++b) {
    ASSIGN_OR_RETURN(parts[static_cast<size_t>(b)].view,
                     ViewPart(rule, inputs, outputs, BlocksOf(rule, degrees, b)));
  }
  for (size_t p = 0; p < config.devices.size(); ++p) {
    const int64_t b = BlockOfPart(graph, op, config, static_cast<int32_t>(p));
    ExpectedPart& part = parts[static_cast<size_t>(b)];
    if (HasResult(part.view)) part.devices.push_back(config.devices[p]);
  }
  for (ExpectedPart& part : parts) {
    std::sort(part.devices.begin(), part.devices.end());
    part.devices.erase(std::unique(part.devices.begin(), part.devices.end()), part.devices.end());
  }
  return parts;
}

}  // namespace partita
