#include "graph/parallel/torus.h"

#include <algorithm>

namespace partita {
namespace {

std::vector<int> Unique(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// How far up a ring a place lies from another one.
int DistanceUp(int from, int to, int extent) { return to >= from ? to - from : to - from + extent; }

bool IsUp(int distance, int extent) { return 2 * distance <= extent; }

}  // namespace

Torus::Torus(std::vector<int> extents) : extents_(std::move(extents)), strides_{1}, first_link_{0} {
  for (int extent : extents_) strides_.push_back(strides_.back() * extent);
  for (int extent : extents_) {
    const int links = extent == 1 ? 0 : extent == 2 ? size() / 2 : size();
    first_link_.push_back(first_link_.back() + links);
  }
}

int Torus::links_of_router() const {
  int sum = 0;
  for (int extent : extents_) sum += std::min(extent, 3) - 1;
  return sum;
}

std::pair<int, int> Torus::EndsOf(int link) const {
  const auto after = std::upper_bound(first_link_.begin(), first_link_.end(), link);
  const auto k = static_cast<size_t>(after - first_link_.begin()) - 1;
  const int number = link - first_link_[k], stride = strides_[k];
  if (extents_[k] == 2) {  // counted without the dimension
    const int first = number % stride + number / stride * stride * 2;
    return {first, first + stride};
  }
  const int place = number / stride % extents_[k];
  return {number, place + 1 < extents_[k] ? number + stride : number - place * stride};
}

int Torus::LinkUp(int router, size_t dimension) const {
  const int stride = strides_[dimension];
  if (extents_[dimension] != 2) return first_link_[dimension] + router;
  return first_link_[dimension] + router % stride + router / (2 * stride) * stride;
}

std::pair<Torus::Hop, int> Torus::HopFrom(int router, size_t dimension, bool up) const {
  const int stride = strides_[dimension], extent = extents_[dimension];
  const int place = router / stride % extent;
  const int next_place = (place + (up ? 1 : extent - 1)) % extent;
  const int next = router + (next_place - place) * stride;
  // The one link of a dimension of two is up from its lower end.
  if (extent == 2) return {{router, LinkUp(router, dimension), place == 0}, next};
  return {{router, LinkUp(up ? router : next, dimension), up}, next};
}

Torus::Hop Torus::LastHop(int from, int to) const {
  for (size_t k = dimensions(); k-- > 0;) {
    const int stride = strides_[k], extent = extents_[k];
    const int there = to / stride % extent;
    const int distance = DistanceUp(from / stride % extent, there, extent);
    if (distance == 0) continue;
    const bool up = IsUp(distance, extent);
    const int place = (there + (up ? extent - 1 : 1)) % extent;
    return HopFrom(to + (place - there) * stride, k, up).first;
  }
  return {};
}

// The farthest of the targets (places in the dimension) in each direction; what is nearer lies on
// the way there.
void Torus::MarkRing(std::span<const int> targets, int from, size_t dimension,
                     std::vector<bool>& used) const {
  const int extent = extents_[dimension], place = from / strides_[dimension] % extent;
  int farthest[2] = {0, 0};
  for (int target : targets) {
    const int distance = DistanceUp(place, target, extent);
    const bool up = IsUp(distance, extent);
    farthest[up] = std::max(farthest[up], up ? distance : extent - distance);
  }
  for (const bool up : {false, true}) {
    int router = from;
    for (int hops = 0; hops < farthest[up]; ++hops) {
      const auto [hop, next] = HopFrom(router, dimension, up);
      used[2 * static_cast<size_t>(hop.link) + (hop.up ? 0 : 1)] = true;
      router = next;
    }
  }
}

// In dimension k a way leads on from a router that has the places of the target in the dimensions
// before k, and of the source in k and those after it. Each combination of the places of some
// target and of some source is such a router.
std::vector<bool> Torus::UsedBetween(std::span<const int> routers) const {
  std::vector<bool> used(2 * static_cast<size_t>(links()));
  for (size_t k = 0; k < dimensions(); ++k) {
    const int stride = strides_[k];
    std::vector<int> sources, targets;
    for (int router : routers) {
      sources.push_back(router / stride);
      // By the dimensions before k, then by k.
      targets.push_back(router % strides_[k + 1]);
    }
    sources = Unique(std::move(sources));
    targets = Unique(std::move(targets));
    std::stable_sort(targets.begin(), targets.end(),
                     [stride](int a, int b) { return a % stride < b % stride; });
    for (size_t first = 0, next; first < targets.size(); first = next) {
      const int before = targets[first] % stride;
      std::vector<int> places;
      for (next = first; next < targets.size() && targets[next] % stride == before; ++next) {
        places.push_back(targets[next] / stride);
      }
      for (int source : sources) MarkRing(places, before + source * stride, k, used);
    }
  }
  return used;
}

}  // namespace partita
