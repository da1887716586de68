#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "runtime/backend/host/host_device.h"

namespace partita {
namespace {

using Kind = MoveSignature::Kind;

// Applies one move to a contiguous run.
template <class T>
void RunOf(Kind kind, T* to, const T* from, int64_t count) {
  switch (kind) {
    case Kind::kFill:
      std::memset(to, 0, static_cast<size_t>(count) * sizeof(T));
      return;
    case Kind::kCopy:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
      return;
    case Kind::kAdd:
      for (int64_t i = 0; i < count; ++i) to[i] += from[i];
      return;
    case Kind::kMax:
      for (int64_t i = 0; i < count; ++i) to[i] = std::max(to[i], from[i]);
      return;
    case Kind::kReorder:
      CHECK(false) << "not a dense move";
  }
}

template <class T>
struct Walk {
  const Stream::MoveArguments& move;

  void Dimension(int d, int64_t from, int64_t to) const {
    const Box& region = move.region;
    if (d == outer) {
      int64_t run = 1;
      for (int k = d; k < region.rank(); ++k) {
        from = from * move.from_box[k].size() + region[k].lo - move.from_box[k].lo;
        to = to * move.to_box[k].size() + region[k].lo - move.to_box[k].lo;
        run *= region[k].size();
      }
      RunOf<T>(move.kind, static_cast<T*>(move.to) + to, static_cast<const T*>(move.from) + from,
               run);
      return;
    }
    for (int64_t i = region[d].lo; i < region[d].hi; ++i) {
      Dimension(d + 1, from * move.from_box[d].size() + i - move.from_box[d].lo,
                to * move.to_box[d].size() + i - move.to_box[d].lo);
    }
  }

  int outer = 0;  // from this dimension on, a run is contiguous on both sides
};

template <class T>
void Run(const Stream::MoveArguments& move) {
  Walk<T> walk{move};
  int d = move.region.rank();
  while (d > 0) {
    --d;
    if (move.region[d] != move.from_box[d] || move.region[d] != move.to_box[d]) break;
  }
  walk.outer = d;
  walk.Dimension(0, 0, 0);
}

template <class To, class From>
void Convert(const Stream::MoveArguments& move) {
  const auto* from = static_cast<const From*>(move.from);
  std::transform(from, from + move.region.volume(), static_cast<To*>(move.to),
                 [](From value) { return static_cast<To>(value); });
}

}  // namespace

absl::Status RunConversion(const Stream::MoveArguments& move) {
  CHECK(move.region == move.from_box && move.region == move.to_box) << "not a whole piece";
  if (move.dtype == move.from_dtype) {
    Stream::MoveArguments copy = move;
    copy.kind = Kind::kCopy;
    return RunDenseMove(copy);
  }
  if (move.from_dtype == DType::kFloat32 && move.dtype == DType::kFloat64) {
    Convert<double, float>(move);
  } else if (move.from_dtype == DType::kFloat64 && move.dtype == DType::kFloat32) {
    Convert<float, double>(move);
  } else {
    return absl::UnimplementedError(
        absl::StrCat("no conversion from ", Name(move.from_dtype), " to ", Name(move.dtype)));
  }
  return absl::OkStatus();
}

absl::Status RunDenseMove(const Stream::MoveArguments& given) {
  Stream::MoveArguments move = given;
  if (move.region.empty()) return absl::OkStatus();
  if (move.kind == Kind::kFill) {
    move.from = move.to;
    move.from_box = move.to_box;
  }
  switch (move.dtype) {
    case DType::kFloat32:
      Run<float>(move);
      break;
    case DType::kFloat64:
      Run<double>(move);
      break;
    case DType::kInt32:
      Run<int32_t>(move);
      break;
    case DType::kRing64:
      // Sums wrap; the maximum compares as signed.
      if (move.kind == Kind::kMax) {
        Run<int64_t>(move);
      } else {
        Run<uint64_t>(move);
      }
      break;
  }
  return absl::OkStatus();
}

}  // namespace partita
