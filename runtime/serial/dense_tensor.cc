#include "runtime/serial/dense_tensor.h"

#include <cstring>

namespace partita {
namespace {

// Calls visit(offset in the whole, offset in the piece, length) for each run of `box`.
template <class Visit>
void ForEachRun(const Shape& whole, const Box& box, Visit&& visit) {
  if (box.empty()) return;
  const int rank = box.rank();
  const int64_t run = rank == 0 ? 1 : box[rank - 1].size();
  for (int64_t i = 0, size = box.volume(); i < size; i += run) {
    int64_t rest = i, offset = 0, stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
      offset += (box[d].lo + rest % box[d].size()) * stride;
      rest /= box[d].size();
      stride *= whole[static_cast<size_t>(d)];
    }
    visit(offset, i, run);
  }
}

template <class T>
void AddRuns(DenseTensor& whole, const Box& box, const DenseTensor& piece) {
  T* to = reinterpret_cast<T*>(whole.bytes.data());
  const T* from = reinterpret_cast<const T*>(piece.bytes.data());
  ForEachRun(whole.type.shape, box, [&](int64_t at, int64_t first, int64_t run) {
    for (int64_t i = 0; i < run; ++i) to[at + i] = static_cast<T>(to[at + i] + from[first + i]);
  });
}

}  // namespace

DenseTensor SliceOf(const DenseTensor& whole, const Box& box) {
  DenseTensor piece({whole.type.dtype, box.shape()});
  const int64_t size = SizeOf(whole.type.dtype);
  ForEachRun(whole.type.shape, box, [&](int64_t from, int64_t to, int64_t run) {
    std::memcpy(piece.bytes.data() + to * size, whole.bytes.data() + from * size,
                static_cast<size_t>(run * size));
  });
  return piece;
}

void AddInto(DenseTensor& whole, const Box& box, const DenseTensor& piece) {
  CHECK(whole.type.dtype == piece.type.dtype);
  switch (whole.type.dtype) {
    case DType::kFloat32:
      return AddRuns<float>(whole, box, piece);
    case DType::kFloat64:
      return AddRuns<double>(whole, box, piece);
    case DType::kInt32:
      return AddRuns<uint32_t>(whole, box, piece);
    case DType::kRing64:
      return AddRuns<uint64_t>(whole, box, piece);
  }
}

}  // namespace partita
