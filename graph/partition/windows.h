#pragma once

#include <optional>
#include <span>

#include "absl/container/inlined_vector.h"
#include "graph/task/task_graph.h"

// Places of the boxes of a region within buffers.

namespace partita {

// The place of each box of a flow.
using Windows = absl::InlinedVector<BufferWindow, 1>;

// The windows as one contiguous slice, if they are one.
inline std::optional<Slice> AsSlice(const Windows& windows, std::span<const Box> boxes) {
  std::optional<Slice> slice;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Placement place = PlacementIn(boxes[i], windows[i].box);
    const int64_t offset = windows[i].offset + place.offset;
    if (!place.contiguous) return std::nullopt;
    if (!slice.has_value()) {
      slice = Slice{windows[i].buffer, offset, boxes[i].volume()};
    } else if (slice->buffer == windows[i].buffer && slice->offset + slice->count == offset) {
      slice->count += boxes[i].volume();
    } else {
      return std::nullopt;
    }
  }
  return slice;
}

// Boxes packed one after another from an offset of a buffer.
inline Windows Packed(BufferId buffer, int64_t offset, std::span<const Box> boxes) {
  Windows windows;
  windows.reserve(boxes.size());
  for (const Box& box : boxes) {
    windows.push_back({buffer, box, offset});
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
