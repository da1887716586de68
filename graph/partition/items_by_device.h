#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "graph/support/strong_int.h"

namespace partita {

// Numbers of pieces, or of demands, by their devices. Takes time in proportion to the items and the
// range of devices that have some.
class ItemsByDevice {
 public:
  template <class Item>
  explicit ItemsByDevice(std::span<const Item> items) : numbers_(items.size()) {
    if (items.empty()) return;
    const auto [first, last] = std::ranges::minmax(items, {}, &Item::device);
    first_ = first.device.value();
    begin_.assign(last.device.index() - first.device.index() + 2, 0);
    for (const Item& item : items) ++begin_[PlaceOf(item.device) + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (size_t i = 0; i < items.size(); ++i) {
      numbers_[next[PlaceOf(items[i].device)]++] = static_cast<int32_t>(i);
    }
  }

  // Calls visit(device, items) for each device that has some, ascending.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (size_t place = 0; place + 1 < begin_.size(); ++place) {
      if (begin_[place] == begin_[place + 1]) continue;
      visit(DeviceId(first_ + static_cast<int32_t>(place)), ItemsOf(place));
    }
  }
  // Those of a device, ascending.
  std::span<const int32_t> At(DeviceId device) const {
    const size_t place = PlaceOf(device);
    if (device.value() < first_ || place + 1 >= begin_.size()) return {};
    return ItemsOf(place);
  }

 private:
  size_t PlaceOf(DeviceId device) const { return static_cast<size_t>(device.value() - first_); }
  std::span<const int32_t> ItemsOf(size_t place) const {
    return {numbers_.data() + begin_[place], numbers_.data() + begin_[place + 1]};
  }

  int32_t first_ = 0;          // device
  std::vector<size_t> begin_;  // list of device first + k is [begin[k], begin[k + 1])
  std::vector<int32_t> numbers_;
};

}  // namespace partita
