#include "tests/testing/nccl_on_host/elements.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace partita::nccl_on_host {
namespace {

constexpr size_t kChunk = 2048;  // elements, to stay in the cache

template <class T>
void Combine(ncclRedOp_t op, T* into, const T* next, size_t count) {
  switch (op) {
    case ncclSum:
      for (size_t i = 0; i < count; ++i) into[i] += next[i];
      return;
    case ncclProd:
      for (size_t i = 0; i < count; ++i) into[i] *= next[i];
      return;
    case ncclMax:
      for (size_t i = 0; i < count; ++i) into[i] = into[i] < next[i] ? next[i] : into[i];
      return;
    case ncclMin:
      for (size_t i = 0; i < count; ++i) into[i] = next[i] < into[i] ? next[i] : into[i];
      return;
    default:
      return;
  }
}

template <class T>
void FoldTyped(ncclRedOp_t op, std::span<const void* const> values, void* into, size_t count) {
  T folded[kChunk];
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t n = std::min(kChunk, count - begin);
    std::memcpy(folded, static_cast<const T*>(values[0]) + begin, n * sizeof(T));
    for (const void* value : values.subspan(1)) {
      Combine(op, folded, static_cast<const T*>(value) + begin, n);
    }
    std::memcpy(static_cast<T*>(into) + begin, folded, n * sizeof(T));
  }
}

class InHostMemory : public Elements {
 public:
  void Copy(void* to, const void* from, size_t bytes) const override {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }

  // Signed integers fold as unsigned ones where that gives the same bits: their sums may wrap.
  void Fold(ncclDataType_t type, ncclRedOp_t op, std::span<const void* const> values, void* into,
            size_t count) const override {
    const bool ordered = op == ncclMax || op == ncclMin;
    switch (type) {
      case ncclInt32:
        return ordered ? FoldTyped<int32_t>(op, values, into, count)
                       : FoldTyped<uint32_t>(op, values, into, count);
      case ncclUint32:
        return FoldTyped<uint32_t>(op, values, into, count);
      case ncclInt64:
        return ordered ? FoldTyped<int64_t>(op, values, into, count)
                       : FoldTyped<uint64_t>(op, values, into, count);
      case ncclUint64:
        return FoldTyped<uint64_t>(op, values, into, count);
      case ncclFloat32:
        return FoldTyped<float>(op, values, into, count);
      case ncclFloat64:
        return FoldTyped<double>(op, values, into, count);
      default:
        return;
    }
  }
};

}  // namespace

const Elements& HostElements() {
  static const InHostMemory elements;
  return elements;
}

size_t BytesOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

bool CanFold(ncclDataType_t type, ncclRedOp_t op) {
  const bool known = type == ncclInt32 || type == ncclUint32 || type == ncclInt64 ||
                     type == ncclUint64 || type == ncclFloat32 || type == ncclFloat64;
  return known && (op == ncclSum || op == ncclProd || op == ncclMax || op == ncclMin);
}

}  // namespace partita::nccl_on_host
