#include "graph/box.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/check.h"

namespace partita {

int64_t Volume(const Shape& shape) {
  int64_t volume = 1;
  for (int64_t extent : shape) volume *= extent;
  return volume;
}

std::string ToString(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

Box Box::Full(const Shape& shape) {
  Box box(static_cast<int>(shape.size()));
  for (size_t d = 0; d < shape.size(); ++d) box.dims_[d] = {0, shape[d]};
  return box;
}

bool Box::empty() const {
  for (const Interval& dim : dims_) {
    if (dim.empty()) return true;
  }
  return false;
}

Shape Box::shape() const {
  Shape shape;
  for (const Interval& dim : dims_) shape.push_back(dim.size());
  return shape;
}

bool Box::Contains(const Box& b) const {
  CHECK_EQ(rank(), b.rank());
  return std::ranges::equal(dims(), b.dims(),
                            [](Interval outer, Interval inner) { return outer.Contains(inner); });
}

std::string ToString(const Box& box) {
  std::string text = "[";
  for (int d = 0; d < box.rank(); ++d) {
    absl::StrAppend(&text, d > 0 ? "," : "", box[d].lo, ":", box[d].hi);
  }
  return text + "]";
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  CHECK_EQ(a.rank(), b.rank());
  Box common(a.rank());
  for (int d = 0; d < a.rank(); ++d) {
    common[d] = Intersect(a[d], b[d]);
    if (common[d].empty()) return std::nullopt;
  }
  return common;
}

std::vector<Box> Subtract(const Box& a, const Box& b) {
  std::vector<Box> rest;
  Box middle = a;
  for (int d = 0; d < a.rank(); ++d) {
    if (a[d].lo < b[d].lo) {
      rest.push_back(middle);
      rest.back()[d] = {a[d].lo, b[d].lo};
    }
    if (b[d].hi < a[d].hi) {
      rest.push_back(middle);
      rest.back()[d] = {b[d].hi, a[d].hi};
    }
    middle[d] = b[d];
  }
  return rest;
}

std::vector<Box> Uncovered(const Box& box, const std::vector<Box>& covers) {
  std::vector<Box> rest;
  if (!box.empty()) rest.push_back(box);
  for (const Box& cover : covers) {
    std::vector<Box> next;
    for (const Box& piece : rest) {
      if (const auto common = Intersect(piece, cover)) {
        for (Box& left : Subtract(piece, *common)) next.push_back(std::move(left));
      } else {
        next.push_back(piece);
      }
    }
    rest = std::move(next);
  }
  return rest;
}

Placement PlacementIn(const Box& inner, const Box& outer) {
  CHECK_EQ(inner.rank(), outer.rank());
  Placement place{0, true};
  // Whether an outer dimension of more than one index is crossed: the rest must be whole.
  bool open = false;
  const auto in = inner.dims(), out = outer.dims();
  for (size_t d = 0; d < in.size(); ++d) {
    place.offset = place.offset * out[d].size() + (in[d].lo - out[d].lo);
    place.contiguous &= !open || in[d] == out[d];
    open |= in[d].size() > 1;
  }
  return place;
}

}  // namespace partita
