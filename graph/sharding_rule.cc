#include "graph/sharding_rule.h"

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"

namespace partita {

LoopSet LoopsOf(const std::vector<DimMap>& dims) {
  LoopSet set;
  for (const DimMap& dim : dims) {
    for (int8_t loop : dim.loops) set.Insert(loop);
  }
  return set;
}

ShardingRule ShardingRule::Finished() && {
  LoopSet summed;  // by some result
  for (const ResultRule& result : results) {
    const LoopSet indexing = LoopsOf(result.dims);
    for (size_t l = 0; l < loops.size(); ++l) {
      if (!indexing.Contains(static_cast<int>(l))) summed.Insert(static_cast<int>(l));
    }
  }
  for (OperandRule& operand : operands) {
    operand.once_loops = operand.once ? summed.Without(LoopsOf(operand.dims)) : LoopSet();
  }
  return std::move(*this);
}

int ShardingRule::FindLoop(const std::string& name) const {
  for (size_t l = 0; l < loops.size(); ++l) {
    if (loops[l].name == name) return static_cast<int>(l);
  }
  return -1;
}

ShardingRule GradientRule(const ShardingRule& forward, int operand, const GradientReads& reads) {
  ShardingRule rule;
  rule.loops = forward.loops;
  for (int k : reads.operands) rule.operands.push_back(forward.operands[static_cast<size_t>(k)]);
  for (int k : reads.results) {
    rule.operands.push_back({.dims = forward.results[static_cast<size_t>(k)].dims});
  }
  for (const ResultRule& result : forward.results) rule.operands.push_back({.dims = result.dims});
  const OperandRule& source = forward.operands[static_cast<size_t>(operand)];
  rule.results.push_back({source.dims, Reduction::kSum, source.once_loops});
  return rule;
}

absl::StatusOr<WideInterval> UnclippedInterval(const DimMap& map, const std::vector<LoopDim>& loops,
                                               std::span<const Interval> blocks) {
  for (int8_t loop : map.loops) {
    if (blocks[static_cast<size_t>(loop)].empty()) return WideInterval{map.lo, map.lo};
  }
  int64_t first = 0;
  int64_t size = 1;
  bool open =
      false;  // a loop with more than one index in its block was met: later ones must be whole
  for (int8_t loop : map.loops) {
    const Interval block = blocks[static_cast<size_t>(loop)];
    const int64_t extent = loops[static_cast<size_t>(loop)].extent;
    if (open && block.size() != extent) {
      return absl::InvalidArgumentError(
          absl::StrCat("loop '", loops[static_cast<size_t>(loop)].name,
                       "' is split inside a product whose outer loop is not split to single "
                       "indices, so a part would not be one interval"));
    }
    if (block.size() > 1) open = true;
    first = first * extent + block.lo;
    size = size * block.size();
  }
  return WideInterval{map.stride * first + map.lo, map.stride * (first + size - 1) + map.hi};
}

namespace {

absl::Status ValidateDims(const ShardingRule& rule, const std::vector<DimMap>& dims,
                          const TensorType& type, const std::string& what) {
  if (dims.size() != type.shape.size()) {
    return absl::InternalError(
        absl::StrCat(what, " has ", dims.size(), " maps for ", ToString(type)));
  }
  std::vector<Interval> whole;
  for (const LoopDim& loop : rule.loops) whole.push_back({0, loop.extent});
  for (size_t d = 0; d < dims.size(); ++d) {
    for (int8_t loop : dims[d].loops) {
      if (loop < 0 || static_cast<size_t>(loop) >= rule.loops.size()) {
        return absl::InternalError(absl::StrCat(what, " names loop ", int{loop}));
      }
    }
    const auto interval = UnclippedInterval(dims[d], rule.loops, whole);
    if (!interval.ok()) return interval.status();
    const int64_t extent = type.shape[d];
    if (extent > 0 && std::max<int64_t>(interval->lo, 0) >= std::min(interval->hi, extent)) {
      return absl::InternalError(absl::StrCat(what, " dimension ", d, " lies outside the tensor"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateRule(const ShardingRule& rule, std::span<const TensorType> operands,
                          std::span<const TensorType> results) {
  if (rule.loops.size() > 31) return absl::InternalError("more than 31 loops");
  if (rule.operands.size() != operands.size() || rule.results.size() != results.size()) {
    return absl::InternalError("operand or result count differs from the rule's");
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    auto status =
        ValidateDims(rule, rule.operands[k].dims, operands[k], absl::StrCat("operand ", k));
    if (!status.ok()) return status;
  }
  for (size_t k = 0; k < results.size(); ++k) {
    auto status = ValidateDims(rule, rule.results[k].dims, results[k], absl::StrCat("result ", k));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

namespace {

std::string DimText(const ShardingRule& rule, const DimMap& map) {
  std::string text;
  for (int8_t loop : map.loops) {
    absl::StrAppend(&text, text.empty() ? "" : "*", rule.loops[static_cast<size_t>(loop)].name);
  }
  if (map.loops.empty()) return absl::StrCat(map.lo, ":", map.hi);
  if (map.stride != 1) text = absl::StrCat(map.stride, text);
  if (map.lo != 0 || map.hi != 1) absl::StrAppend(&text, "+", map.lo, ":", map.hi);
  return text;
}

std::string DimsText(const ShardingRule& rule, const std::vector<DimMap>& dims) {
  std::string text = "(";
  for (size_t d = 0; d < dims.size(); ++d) {
    absl::StrAppend(&text, d > 0 ? "," : "", DimText(rule, dims[d]));
  }
  return text + ")";
}

}  // namespace

std::string ToString(const ShardingRule& rule) {
  std::string text;
  for (size_t k = 0; k < rule.operands.size(); ++k) {
    absl::StrAppend(&text, k > 0 ? "," : "", DimsText(rule, rule.operands[k].dims),
                    rule.operands[k].once ? "once" : "");
  }
  text += "->";
  for (size_t k = 0; k < rule.results.size(); ++k) {
    absl::StrAppend(&text, k > 0 ? "," : "", DimsText(rule, rule.results[k].dims),
                    rule.results[k].reduction == Reduction::kMax ? "max" : "");
  }
  return text;
}

}  // namespace partita
