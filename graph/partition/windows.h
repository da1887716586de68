#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/container/inlined_vector.h"
#include "graph/task/task_graph.h"

// Places of the boxes of a region within buffers.

namespace partita {

// BufferWindow without a box of its own.
struct WindowRef {
  BufferId buffer = kNoBuffer;
  const Box* box = nullptr;
  int64_t offset = 0;
};
inline BufferWindow ToBufferWindow(const WindowRef& window) {
  return {window.buffer, *window.box, window.offset};
}

// The place of each box of a flow.
using Windows = absl::InlinedVector<WindowRef, 1>;

// Joins places of boxes, one after another, as long as they are one contiguous slice.
class SliceJoiner {
 public:
  void Add(const Windows& windows, std::span<const Box> boxes) {
    for (size_t i = 0; i < boxes.size() && !broken_; ++i) Add(windows[i], boxes[i]);
  }
  // Nothing if they are not one slice, or none was added.
  std::optional<Slice> slice() const { return broken_ ? std::nullopt : slice_; }

 private:
  void Add(const WindowRef& window, const Box& box) {
    const Placement place = PlacementIn(box, *window.box);
    const int64_t offset = window.offset + place.offset;
    if (!place.contiguous) {
      broken_ = true;
    } else if (!slice_.has_value()) {
      slice_ = Slice{window.buffer, offset, box.volume()};
    } else if (slice_->buffer == window.buffer && slice_->offset + slice_->count == offset) {
      slice_->count += box.volume();
    } else {
      broken_ = true;
    }
  }

  std::optional<Slice> slice_;
  bool broken_ = false;
};

// The windows as one contiguous slice, if they are one.
inline std::optional<Slice> AsSlice(const Windows& windows, std::span<const Box> boxes) {
  SliceJoiner joiner;
  joiner.Add(windows, boxes);
  return joiner.slice();
}

// Boxes packed one after another from an offset of a buffer. The boxes outlive the windows.
inline Windows Packed(BufferId buffer, int64_t offset, std::span<const Box> boxes) {
  Windows windows;
  windows.reserve(boxes.size());
  for (const Box& box : boxes) {
    windows.push_back({buffer, &box, offset});
    offset += box.volume();
  }
  return windows;
}

inline int64_t VolumeOf(std::span<const Box> boxes) {
  int64_t volume = 0;
  for (const Box& box : boxes) volume += box.volume();
  return volume;
}

}  // namespace partita
