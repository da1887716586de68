#include "graph/parallel/device_ranges.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

// Ranges that a text has, the last one included.
constexpr size_t kFewRanges = 4;

std::string ToString(const StridedDevices& range) {
  if (range.first == range.last) return absl::StrCat(range.first);
  const std::string text = absl::StrCat(range.first, "-", range.last);
  return range.step == 1 ? text : absl::StrCat(text, " by ", range.step);
}

}  // namespace

std::vector<StridedDevices> RangesOf(std::span<const DeviceId> devices) {
  std::vector<StridedDevices> ranges;
  for (size_t p = 0; p < devices.size();) {
    const int32_t first = devices[p].value();
    StridedDevices& range = ranges.emplace_back(StridedDevices{first, first});
    if (++p == devices.size() || devices[p].value() == first) continue;
    range.step = devices[p].value() - first;
    for (; p < devices.size() && devices[p].value() - range.last == range.step; ++p) {
      range.last += range.step;
    }
  }
  return ranges;
}

absl::Status AppendRange(const StridedDevices& range, int64_t most,
                         std::vector<DeviceId>& devices) {
  const int64_t distance = int64_t{range.last} - range.first;
  const int64_t step = distance == 0 ? 1 : range.step;
  if (step == 0 || distance % step != 0 || distance / step < 0) {
    return absl::InvalidArgumentError(absl::StrCat("devices ", range.first, " to ", range.last,
                                                   " are not in steps of ", range.step));
  }
  const int64_t count = distance / step + 1;
  if (count + static_cast<int64_t>(devices.size()) > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranges of more than ", most, " devices, which are all that it may have"));
  }
  devices.reserve(devices.size() + static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) {
    devices.push_back(DeviceId(static_cast<int32_t>(range.first + k * step)));
  }
  return absl::OkStatus();
}

std::string DevicesText(std::span<const DeviceId> devices) {
  const std::vector<StridedDevices> ranges = RangesOf(devices);
  if (ranges.size() == 1 && ranges[0].step == 1 && devices.size() > 2) return ToString(ranges[0]);
  std::string text;
  if (devices.size() <= kFewDevices) {
    for (DeviceId device : devices) {
      absl::StrAppend(&text, text.empty() ? "" : ",", device.value());
    }
    return text;
  }
  const size_t written = std::min(ranges.size(), kFewRanges);
  for (size_t k = 0; k + 1 < written; ++k) absl::StrAppend(&text, ToString(ranges[k]), ", ");
  if (ranges.size() > written) absl::StrAppend(&text, ".., ");
  return absl::StrCat(text, ToString(ranges.back()));
}

}  // namespace partita
