#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "graph/task/task_graph.h"

// Places of the boxes of a flow within buffers.

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

inline int64_t VolumeOf(std::span<const Box> boxes) {
  int64_t volume = 0;
  for (const Box& box : boxes) volume += box.volume();
  return volume;
}

// The place of the boxes of a flow: inside a box that the buffer holds, or packed one after another from
// an offset on. The boxes outlive it.
class FlowPlace {
 public:
  static FlowPlace Within(BufferId buffer, const Box& box) { return {buffer, &box, 0}; }
  static FlowPlace Packed(BufferId buffer, int64_t offset) { return {buffer, nullptr, offset}; }

  // Calls visit(window, box) for each of the boxes.
  template <class Visit>
  void ForEach(std::span<const Box> boxes, Visit&& visit) const {
    int64_t offset = offset_;
    for (const Box& box : boxes) {
      visit(WindowRef{buffer_, box_ == nullptr ? &box : box_, offset}, box);
      if (box_ == nullptr) offset += box.volume();
    }
  }
  BufferId buffer() const { return buffer_; }
  // The box that the buffer holds around one of the boxes: that one itself where they are packed.
  const Box& BoxAround(const Box& box) const { return box_ == nullptr ? box : *box_; }
  // The window of one of the boxes, which comes after so many elements of the others.
  WindowRef WindowOf(const Box& box, int64_t before) const {
    if (box_ != nullptr) return {buffer_, box_, 0};
    return {buffer_, &box, offset_ + before};
  }
  // The boxes as one contiguous slice, if they are one.
  std::optional<Slice> AsSlice(std::span<const Box> boxes) const;

 private:
  FlowPlace(BufferId buffer, const Box* box, int64_t offset)
      : buffer_(buffer), box_(box), offset_(offset) {}

  BufferId buffer_;
  const Box* box_;  // what the buffer holds; null: packed
  int64_t offset_;
};

// Joins places of boxes, one after another, as long as they are one contiguous slice.
class SliceJoiner {
 public:
  void Add(const FlowPlace& place, std::span<const Box> boxes) {
    place.ForEach(boxes, [this](const WindowRef& window, const Box& box) { Add(window, box); });
  }
  // Nothing if they are not one slice, or none was added.
  std::optional<Slice> slice() const { return broken_ ? std::nullopt : slice_; }

 private:
  void Add(const WindowRef& window, const Box& box) {
    if (broken_) return;
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

inline std::optional<Slice> FlowPlace::AsSlice(std::span<const Box> boxes) const {
  if (box_ == nullptr) return Slice{buffer_, offset_, VolumeOf(boxes)};
  if (boxes.size() == 1) {
    const Placement place = PlacementIn(boxes[0], *box_);
    if (!place.contiguous) return std::nullopt;
    return Slice{buffer_, offset_ + place.offset, boxes[0].volume()};
  }
  SliceJoiner joiner;
  joiner.Add(*this, boxes);
  return joiner.slice();
}

}  // namespace partita
