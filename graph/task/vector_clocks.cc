#include "graph/task/vector_clocks.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace partita {
namespace {

constexpr size_t kCompared = size_t{1} << 14;

size_t PlaceOf(uint32_t a, uint32_t b) {
  return ((uint64_t{a} << 32 | b) * 0x9E3779B97F4A7C15u) >> 32 & (kCompared - 1);
}

}  // namespace

VectorClocks::VectorClocks(size_t lanes)
    : levels_(std::max(1, static_cast<int>(std::bit_width(lanes - 1)))),
      nodes_(1),
      compared_(kCompared) {}

int32_t VectorClocks::At(Clock clock, size_t lane) const {
  for (int level = levels_; level-- > 0;) clock = nodes_[clock][lane >> level & 1];
  return static_cast<int32_t>(clock);
}

VectorClocks::Clock VectorClocks::With(Clock clock, size_t lane, int32_t count) {
  return At(clock, lane) == count ? clock : With(clock, lane, count, levels_);
}

VectorClocks::Clock VectorClocks::With(Clock clock, size_t lane, int32_t count, int level) {
  if (level == 0) return static_cast<Clock>(count);
  Node node = nodes_[clock];
  uint32_t& child = node[lane >> (level - 1) & 1];
  child = With(child, lane, count, level - 1);
  return Add(node);
}

VectorClocks::Clock VectorClocks::Max(Clock a, Clock b, int level) {
  if (level == 0) return std::max(a, b);
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  if (a > b) std::swap(a, b);
  const size_t place = PlaceOf(a, b);
  if (compared_[place].a == a && compared_[place].b == b) return compared_[place].larger;
  const Node of_a = nodes_[a], of_b = nodes_[b];
  const Node node = {Max(of_a[0], of_b[0], level - 1), Max(of_a[1], of_b[1], level - 1)};
  const Clock larger = node == of_a ? a : node == of_b ? b : Add(node);
  compared_[place] = {a, b, larger};
  return larger;
}

VectorClocks::Clock VectorClocks::Add(Node node) {
  nodes_.push_back(node);
  return static_cast<Clock>(nodes_.size() - 1);
}

}  // namespace partita
