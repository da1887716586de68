#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include "runtime/backend/cuda/elements/conversion_elements.h"

// For .cu files only.

namespace partita {

// Neighbours that are read or written at once.
template <class T, int kSize>
struct alignas(kSize * sizeof(T)) Vector {
  T of[kSize];
};

// Loads four elements that nobody writes while the kernel runs (see ReadOnly).
template <class T>
__device__ Vector<T, 4> ReadOnlyVector(const Vector<T, 4>* data) {
  using Words = std::conditional_t<sizeof(T) == 4, uint4, uint2>;
  static_assert(sizeof(Words) == sizeof *data);
  union {
    Words words;
    Vector<T, 4> vector;
  } read;
  read.words = __ldg(reinterpret_cast<const Words*>(data));
  return read.vector;
}

// A Conversion whose types are known to the compiler; scales are read once.
template <NumberType kFrom, NumberType kTo>
class TypedConversion {
 public:
  template <NumberType kType>
  using Number = std::conditional_t<kType == NumberType::kFloat32, float, uint16_t>;
  using From = Number<kFrom>;
  using To = Number<kTo>;

  __device__ explicit TypedConversion(const Conversion& conversion)
      : from(static_cast<const From*>(conversion.from)),
        to(static_cast<To*>(conversion.to)),
        bias_(conversion.bias),
        relu_(conversion.relu) {
    if (conversion.first_factor != nullptr) factor_ = ReadOnly(conversion.first_factor);
    if (conversion.second_factor != nullptr) factor_ *= ReadOnly(conversion.second_factor);
  }

  __device__ float Value(From number) const {
    if constexpr (kFrom == NumberType::kFloat32) {
      return factor_ * number;
    } else {
      return factor_ * ValueOf(kFrom, number);
    }
  }
  __device__ To Result(float value) const {
    value = relu_ && value < 0 ? 0.0f : value;
    if constexpr (kTo == NumberType::kFloat32) {
      return value;
    } else {
      return kTo == NumberType::kFloat16 ? ToFloat16(value) : ToBfloat16(value);
    }
  }
  __device__ bool has_bias() const { return bias_ != nullptr; }
  // The bias of a channel, of a conversion that has one.
  __device__ float BiasOf(int64_t channel) const { return ReadOnly(bias_ + channel); }

  const From* const from;
  To* const to;

 private:
  float factor_ = 1;
  const float* const bias_;
  const bool relu_;
};

template <NumberType kType>
using NumberTypeConstant = std::integral_constant<NumberType, kType>;

// Calls launch(from, to) with the conversion's types as constants.
template <class Launch>
cudaError_t WithTypes(const Conversion& conversion, Launch&& launch) {
  constexpr NumberTypeConstant<NumberType::kFloat32> float32;
  constexpr NumberTypeConstant<NumberType::kFloat16> float16;
  constexpr NumberTypeConstant<NumberType::kBfloat16> bfloat16;
  const NumberType from = conversion.from_type, to = conversion.to_type;
  if (from == NumberType::kFloat32) {
    return to == NumberType::kFloat32   ? launch(float32, float32)
           : to == NumberType::kFloat16 ? launch(float32, float16)
                                        : launch(float32, bfloat16);
  }
  if (to != NumberType::kFloat32) return cudaErrorInvalidValue;
  return from == NumberType::kFloat16 ? launch(float16, float32) : launch(bfloat16, float32);
}

}  // namespace partita
