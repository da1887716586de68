#include "graph/onnx/shape_rules.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {

absl::StatusOr<size_t> CheckedAxis(int64_t axis, size_t rank) {
  const auto limit = static_cast<int64_t>(rank);
  if (axis < -limit || axis >= limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " is outside an operand of ", rank, " dimensions"));
  }
  return static_cast<size_t>(axis < 0 ? axis + limit : axis);
}

absl::StatusOr<Shape> ResolveReshape(const Shape& x, const std::vector<int64_t>& target,
                                     bool allow_zero) {
  const auto error = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reshape ", ToString(x), " to [", absl::StrJoin(target, ","), "]"));
  };
  if (target.size() > 8) return error();
  Shape shape;
  int open = -1;
  int64_t known = 1;
  for (size_t d = 0; d < target.size(); ++d) {
    int64_t extent = target[d];
    if (extent == 0 && !allow_zero) {
      if (d >= x.size()) return error();
      extent = x[d];
    }
    if (extent == -1 && open < 0) {
      open = static_cast<int>(d);
      extent = 1;
    }
    if (extent < 0 || extent > kMaxExtent) return error();
    shape.push_back(extent);
    auto volume = CheckedVolume(shape);
    if (!volume.ok()) return error();
    known = *volume;
  }
  const int64_t volume = Volume(x);
  if (open >= 0) {
    if (known == 0 || volume % known != 0) return error();
    shape[static_cast<size_t>(open)] = volume / known;
  } else if (known != volume) {
    return error();
  }
  RETURN_IF_ERROR(CheckedVolume(shape).status());
  return shape;
}

absl::StatusOr<Shape> FlattenedShape(const Shape& x, int64_t axis) {
  const auto rank = static_cast<int64_t>(x.size());
  if (axis < -rank || axis > rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " is outside an operand of ", rank, " dimensions"));
  }
  const auto first = x.begin() + (axis < 0 ? axis + rank : axis);
  const auto product = [](auto begin, auto end) {
    return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
  };
  const Shape shape = {product(x.begin(), first), product(first, x.end())};
  RETURN_IF_ERROR(CheckedVolume(shape).status());
  return shape;
}

absl::StatusOr<Shape> SqueezedShape(const Shape& x, const std::vector<int64_t>& axes) {
  std::vector<bool> dropped(x.size());
  for (int64_t axis : axes) {
    ASSIGN_OR_RETURN(const size_t d, CheckedAxis(axis, x.size()));
    if (x[d] != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot drop dimension ", d, " of ", ToString(x)));
    }
    dropped[d] = true;
  }
  Shape shape;
  for (size_t d = 0; d < x.size(); ++d) {
    if (axes.empty() ? x[d] != 1 : !dropped[d]) shape.push_back(x[d]);
  }
  return shape;
}

absl::StatusOr<Shape> UnsqueezedShape(const Shape& x, const std::vector<int64_t>& axes) {
  const size_t rank = x.size() + axes.size();
  if (rank > 8) return absl::InvalidArgumentError("its result has more than 8 dimensions");
  std::vector<bool> added(rank);
  for (int64_t axis : axes) {
    ASSIGN_OR_RETURN(const size_t d, CheckedAxis(axis, rank));
    if (added[d]) return absl::InvalidArgumentError(absl::StrCat("axis ", d, " is given twice"));
    added[d] = true;
  }
  Shape shape;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d) shape.push_back(added[d] ? 1 : x[next++]);
  return shape;
}

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  Shape y(std::max(a.size(), b.size()), 1);
  for (size_t d = 1; d <= y.size(); ++d) {
    const int64_t p = d <= a.size() ? a[a.size() - d] : 1;
    const int64_t q = d <= b.size() ? b[b.size() - d] : 1;
    if (p != q && p != 1 && q != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", ToString(a), " and ", ToString(b), " do not broadcast"));
    }
    y[y.size() - d] = p == 1 ? q : p;
  }
  return y;
}

BroadcastIndex::BroadcastIndex(const Shape& operand, const Shape& result)
    : result_(result), strides_(result.size(), 0) {
  int64_t stride = 1;
  for (size_t d = 1; d <= operand.size(); ++d) {
    const int64_t extent = operand[operand.size() - d];
    if (extent != 1) strides_[result.size() - d] = stride;
    stride *= extent;
  }
}

int64_t BroadcastIndex::Of(int64_t i) const {
  int64_t index = 0;
  for (size_t d = result_.size(); d-- > 0;) {
    index += i % result_[d] * strides_[d];
    i /= result_[d];
  }
  return index;
}

namespace {

struct SliceInputs {
  std::vector<int64_t> starts, ends, axes, steps;
};

absl::StatusOr<SliceInputs> ReadSlice(NodeImport& node) {
  SliceInputs s;
  if (node.opset() < 10) {
    s.starts = node.attributes().Ints("starts", {}, INT64_MIN, INT64_MAX);
    s.ends = node.attributes().Ints("ends", {}, INT64_MIN, INT64_MAX);
    s.axes = node.attributes().Ints("axes", {});
    RETURN_IF_ERROR(node.attributes().status());
  } else {
    ASSIGN_OR_RETURN(s.starts, node.IntsInput(1));
    ASSIGN_OR_RETURN(s.ends, node.IntsInput(2));
    if (node.Has(3)) {
      ASSIGN_OR_RETURN(s.axes, node.IntsInput(3));
    }
    if (node.Has(4)) {
      ASSIGN_OR_RETURN(s.steps, node.IntsInput(4));
    }
  }
  if (s.axes.empty()) {
    for (size_t d = 0; d < s.starts.size(); ++d) s.axes.push_back(static_cast<int64_t>(d));
  }
  if (s.steps.empty()) s.steps.assign(s.starts.size(), 1);
  if (s.ends.size() != s.starts.size() || s.axes.size() != s.starts.size() ||
      s.steps.size() != s.starts.size()) {
    return absl::InvalidArgumentError("its starts, ends, axes and steps differ in number");
  }
  return s;
}

}  // namespace

absl::StatusOr<std::vector<SliceRange>> SliceRanges(NodeImport& node, const Shape& x) {
  ASSIGN_OR_RETURN(const SliceInputs s, ReadSlice(node));
  std::vector<SliceRange> ranges;
  for (int64_t extent : x) ranges.push_back({0, 1, extent});
  for (size_t k = 0; k < s.starts.size(); ++k) {
    ASSIGN_OR_RETURN(const size_t d, CheckedAxis(s.axes[k], x.size()));
    const int64_t extent = x[d];
    const int64_t step = std::clamp(s.steps[k], -kMaxExtent, kMaxExtent);
    if (step == 0) return absl::InvalidArgumentError("its step is 0");
    const auto place = [&](int64_t at, int64_t lo, int64_t hi) {
      return std::clamp(at < 0 && at >= -extent ? at + extent : at < 0 ? lo : at, lo, hi);
    };
    const int64_t lo = step > 0 ? 0 : -1;
    const int64_t hi = step > 0 ? extent : extent - 1;
    const int64_t start = place(s.starts[k], lo, hi);
    const int64_t end = place(s.ends[k], lo, hi);
    const int64_t span = step > 0 ? end - start : start - end;
    const int64_t stride = step > 0 ? step : -step;
    ranges[d] = {start, step, span > 0 ? (span + stride - 1) / stride : 0};
  }
  return ranges;
}

}  // namespace partita::onnx
