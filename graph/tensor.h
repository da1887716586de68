#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "graph/box.h"

namespace partita {

// Type of an element. kRing64 holds an integer modulo 2^64 and stands for any real number in the
// exact runs that prove a plan equal to the serial model; integers (labels) stay integers there.
enum class DType : uint8_t { kFloat32, kFloat64, kInt32, kRing64 };

constexpr int64_t SizeOf(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kInt32 ? 4 : 8;
}
// Whether it holds floating-point numbers.
constexpr bool IsReal(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }
constexpr const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "f32";
    case DType::kFloat64:
      return "f64";
    case DType::kInt32:
      return "i32";
    case DType::kRing64:
      return "ring64";
  }
  return "?";
}

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;

  int64_t bytes() const { return Volume(shape) * SizeOf(dtype); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
  template <class H>
  friend H AbslHashValue(H h, const TensorType& a) {
    return H::combine(std::move(h), a.dtype, a.shape);
  }
};

inline std::string ToString(const TensorType& type) {
  return std::string(Name(type.dtype)) + ToString(type.shape);
}

}  // namespace partita
