#pragma once

#include "runtime/backend/cuda/elements/conversion_elements.h"

namespace partita {

// Blocks of neighbouring pixels as channels ("space to depth"): x[n, c, h, w] as
// to[n, slot, u, v], whose slot (i * c + channel) * columns + j holds the pixel
// x[n, channel, u * rows + i - top, v * columns + j - left], or 0 outside of x and where i is no row
// of a block. With channels_last the slot is the innermost dimension in memory.
struct ImageBlocks {
  static constexpr int kMostColumns = 8;
  Divisor channels, x_height, x_wide;  // of x
  int64_t top = 0, left = 0;           // where the first block begins: before x, if positive
  Divisor rows, columns;               // of a block
  Divisor height, wide;                // of `to`, in blocks
  Divisor runs;                        // slots / columns
  bool channels_last = false;

  PARTITA_HOST_DEVICE int64_t slots() const { return runs.value * columns.value; }
  PARTITA_HOST_DEVICE int64_t PlaceOf(int64_t n, int64_t slot, int64_t u, int64_t v) const {
    return channels_last ? ((n * height.value + u) * wide.value + v) * slots() + slot
                         : ((n * slots() + slot) * height.value + u) * wide.value + v;
  }
  int64_t RunsOf(int64_t images) const { return images * height.value * wide.value * runs.value; }
  // From a slot to the next.
  PARTITA_HOST_DEVICE int64_t step() const { return channels_last ? 1 : height.value * wide.value; }

  // The slots of one row of a block and one channel: j = 0 .. columns - 1.
  template <class Int>
  struct Run {
    Int from = 0;            // place of j = 0 in x
    Int first = 0, end = 0;  // the j that lie in x
    Int to = 0;              // place of j = 0 in `to`
  };
  // Run t of all, in the order in which they lie in memory. Int: a type that has all places.
  template <class Int>
  PARTITA_HOST_DEVICE Run<Int> RunAt(Int t) const {
    const auto quotient = [](const Divisor& by, Int of) {
      return static_cast<Int>(by.Quotient(of));
    };
    const auto value = [](const Divisor& of) { return static_cast<Int>(of.value); };
    // Channels last: n, u, v, run of the block; otherwise n, run, u, v.
    const Divisor& inner = channels_last ? runs : wide;
    const Divisor& middle = channels_last ? wide : height;
    const Divisor& outer = channels_last ? height : runs;
    const Int a = quotient(inner, t), b = quotient(middle, a), n = quotient(outer, b);
    const Int of_inner = t - a * value(inner), of_middle = a - b * value(middle),
              of_outer = b - n * value(outer);
    const Int k = channels_last ? of_inner : of_outer;
    const Int u = channels_last ? of_outer : of_middle;
    const Int v = channels_last ? of_middle : of_inner;
    const Int i = quotient(channels, k), channel = k - i * value(channels);
    const Int h = u * value(rows) + i - static_cast<Int>(top);
    const Int w = v * value(columns) - static_cast<Int>(left);
    const bool inside = i < value(rows) && h >= 0 && h < value(x_height);
    Run<Int> run;
    run.from = ((n * value(channels) + channel) * value(x_height) + h) * value(x_wide) + w;
    run.first = -w;
    run.end = inside ? value(x_wide) - w : 0;
    run.to = channels_last ? t * value(columns)
                           : (b * value(columns) * value(height) + u) * value(wide) + v;
    return run;
  }
};

// x -> to; t counts the runs of all images.
struct ToBlocksElement {
  Conversion conversion;
  ImageBlocks blocks;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    conversion.VisitPointers(visit);
  }
  // Whether the launcher has a kernel for its number of columns.
  bool is_usual() const { return blocks.columns.value == 2 || blocks.columns.value == 4; }
  struct Operands {
    int64_t to;
    uint32_t bits[ImageBlocks::kMostColumns];
  };
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int t) const {
    const auto run = blocks.RunAt<Int>(t);
    Operands of;
    of.to = run.to;
    for (int j = 0; j < ImageBlocks::kMostColumns; ++j) {
      const bool inside = j < blocks.columns.value && j >= run.first && j < run.end;
      of.bits[j] = inside ? conversion.Bits(run.from + j) : 0;
    }
    return of;
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int, const Operands& of) const {
    const int64_t step = blocks.step();
    for (int j = 0; j < ImageBlocks::kMostColumns; ++j) {
      if (j >= blocks.columns.value) continue;
      conversion.Store(of.to + j * step, 0, conversion.Value(of.bits[j]));
    }
  }
};

// The inverse: pixel i of x from its block; 0 where no block has it.
struct FromBlocksElement {
  Conversion conversion;
  ImageBlocks blocks;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    conversion.VisitPointers(visit);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [line, column] = blocks.x_wide.Divide(i);
    const auto [plane, row] = blocks.x_height.Divide(line);
    const auto [n, channel] = blocks.channels.Divide(plane);
    const Int h = row + static_cast<Int>(blocks.top), w = column + static_cast<Int>(blocks.left);
    const auto [u, in_rows] = blocks.rows.Divide(h < 0 ? Int{0} : h);
    const auto [v, in_columns] = blocks.columns.Divide(w < 0 ? Int{0} : w);
    const bool inside = h >= 0 && u < blocks.height.value && w >= 0 && v < blocks.wide.value;
    if (!inside) return conversion.Store(i, 0, 0.0f);
    const int64_t run = in_rows * blocks.channels.value + channel;
    const int64_t slot = run * blocks.columns.value + in_columns;
    conversion.Store(i, 0, conversion.Value(conversion.Bits(blocks.PlaceOf(n, slot, u, v))));
  }
};

}  // namespace partita
