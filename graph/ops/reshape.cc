#include "graph/ops/reshape.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"

// A reshape splits along the coarsest factors of which all dimensions of both shapes are products:
// [2,6] -> [4,3] has the loops 2, 2, 3; x is (2)(2*3), y is (2*2)(3). They are found by walking
// both shapes from the outside, cutting off the smaller of what is left of the current dimensions,
// which must divide the other.

namespace partita {
namespace {

struct Refinement {
  std::vector<int64_t> factors;  // outermost first
  std::vector<LoopList> x, y;    // the factors of each dimension
};

std::optional<Refinement> Refine(const Shape& x, const Shape& y) {
  Refinement r;
  r.x.resize(x.size());
  r.y.resize(y.size());
  auto emit = [&](int64_t factor) {
    r.factors.push_back(factor);
    return static_cast<int8_t>(r.factors.size() - 1);
  };
  // A batch of one still has its loop.
  if (!x.empty() && !y.empty() && x[0] == 1 && y[0] == 1) {
    const int8_t loop = emit(1);
    r.x[0] = {loop};
    r.y[0] = {loop};
  }
  size_t i = 0, j = 0;
  int64_t a = 1, b = 1;  // what is left of x[i - 1] and y[j - 1]
  while (true) {
    while (a == 1 && i < x.size()) a = x[i++];
    while (b == 1 && j < y.size()) b = y[j++];
    if (a == 1 || b == 1) break;
    const int64_t factor = std::min(a, b);
    if (a % factor != 0 || b % factor != 0 || r.factors.size() == 31) return std::nullopt;
    const int8_t loop = emit(factor);
    r.x[i - 1].push_back(loop);
    r.y[j - 1].push_back(loop);
    a /= factor;
    b /= factor;
  }
  if (a != b) return std::nullopt;
  return r;
}

std::vector<DimMap> DimsOf(const std::vector<LoopList>& loops) {
  std::vector<DimMap> dims;
  for (const LoopList& list : loops) {
    dims.push_back(list.empty() ? Fixed(0, 1) : DimMap{.loops = list});
  }
  return dims;
}

// A loop that is a dimension by itself has that dimension's name.
void NameLoops(const std::vector<LoopList>& dims, ShardingRule& rule) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].size() != 1) continue;
    const std::string name = DimensionName(static_cast<int>(d));
    LoopDim& loop = rule.loops[static_cast<size_t>(dims[d][0])];
    if (loop.name.empty() && rule.FindLoop(name) < 0) loop.name = name;
  }
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferResults(const Reshape& reshape,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("reshape", operands, 1, 1));
  const Shape& x = operands[0].shape;
  Shape y(reshape.shape.begin(), reshape.shape.end());
  int64_t known = 1;
  int64_t* unknown = nullptr;
  for (int64_t& extent : y) {
    if (extent == -1 && unknown == nullptr) {
      unknown = &extent;
    } else if (extent < 1 || extent > Volume(x)) {
      known = 0;
    } else {
      known *= extent;
      if (known > Volume(x)) known = 0;
    }
  }
  if (unknown != nullptr && known > 0) *unknown = Volume(x) / known;
  if (known == 0 || Volume(y) != Volume(x)) {
    return absl::InvalidArgumentError(absl::StrCat("reshape: ", ToString(x), " has not as many ",
                                                   "elements as [",
                                                   absl::StrJoin(reshape.shape, ","), "]"));
  }
  if (!Refine(x, y).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("reshape: ", ToString(x), " to ", ToString(y),
                     " is not supported: their dimensions are no products of common factors"));
  }
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const Reshape&, std::span<const TensorType> operands,
                      std::span<const TensorType> results) {
  const auto refinement = Refine(operands[0].shape, results[0].shape);
  CHECK(refinement.has_value());
  ShardingRule rule;
  for (int64_t factor : refinement->factors) rule.loops.push_back({"", factor});
  NameLoops(refinement->x, rule);
  NameLoops(refinement->y, rule);
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    if (!rule.loops[l].name.empty()) continue;
    rule.loops[l].name = l == 0 && rule.FindLoop("n") < 0 ? "n" : absl::StrCat("r", l);
  }
  rule.operands.push_back({.dims = DimsOf(refinement->x)});
  rule.results.push_back({.dims = DimsOf(refinement->y)});
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const Reshape&, int) { return {}; }

Reshape Localize(const Reshape&, const PartView& view) {
  const Shape y = view.results[0].box.shape();
  return {.shape = {y.begin(), y.end()}};
}

Work WorkOf(const Reshape&, Pass, std::span<const TensorType>,
            std::span<const TensorType> outputs) {
  return {.other = Volume(outputs[0].shape)};
}

std::vector<InPlacePair> InPlace(const Reshape&, Pass) { return {{0, 0}}; }

absl::Status Rebatch(Reshape& reshape, const Shape&, const BatchChange& batch) {
  if (!reshape.shape.empty() && reshape.shape[0] > 0 && reshape.shape[0] % batch.from == 0) {
    reshape.shape[0] = reshape.shape[0] / batch.from * batch.to;
  }
  return absl::OkStatus();
}

}  // namespace partita
