#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/backend/cuda/host_device_code.h"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

// Numbers of 16 bits (IEEE 754 binary16, and bfloat16: the upper half of a float), rounded to the
// nearest, ties to even: by the GPU's instructions there, in integer arithmetic on the host, where
// tests run, which has no such types.

namespace partita {

enum class NumberType : uint8_t { kFloat32, kFloat16, kBfloat16 };

PARTITA_HOST_DEVICE inline uint32_t BitsOf(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

PARTITA_HOST_DEVICE inline float FloatOf(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Infinity from 65520 on.
PARTITA_HOST_DEVICE inline uint16_t ToFloat16(float value) {
#ifdef __CUDA_ARCH__
  return __half_as_ushort(__float2half_rn(value));
#else
  const uint32_t bits = BitsOf(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // infinity
  if (magnitude < 0x38800000u) {  // subnormal, below 2^-14: multiples of 2^-24, the last place of
                                  // 0.5
    const float shifted = FloatOf(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (BitsOf(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
#endif
}

PARTITA_HOST_DEVICE inline float FromFloat16(uint16_t half) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(half));
#else
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * (1.0f / (1 << 24));
    return FloatOf(sign | BitsOf(magnitude));
  }
  if (exponent == 0x1fu) return FloatOf(sign | 0x7f800000u | (fraction << 13));
  return FloatOf(sign | ((exponent + 112u) << 23) | (fraction << 13));
#endif
}

PARTITA_HOST_DEVICE inline uint16_t ToBfloat16(float value) {
#ifdef __CUDA_ARCH__
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

PARTITA_HOST_DEVICE inline float FromBfloat16(uint16_t number) {
  return FloatOf(static_cast<uint32_t>(number) << 16);
}

PARTITA_HOST_DEVICE inline int64_t BytesOf(NumberType type) {
  return type == NumberType::kFloat32 ? 4 : 2;
}

// A number as it lies in memory, and its value.
PARTITA_HOST_DEVICE inline uint32_t LoadBits(NumberType type, const void* data, int64_t at) {
  if (type == NumberType::kFloat32) return static_cast<const uint32_t*>(data)[at];
  return static_cast<const uint16_t*>(data)[at];
}
PARTITA_HOST_DEVICE inline float ValueOf(NumberType type, uint32_t bits) {
  if (type == NumberType::kFloat32) return FloatOf(bits);
  const auto number = static_cast<uint16_t>(bits);
  return type == NumberType::kFloat16 ? FromFloat16(number) : FromBfloat16(number);
}

PARTITA_HOST_DEVICE inline float LoadNumber(NumberType type, const void* data, int64_t at) {
  return ValueOf(type, LoadBits(type, data, at));
}

PARTITA_HOST_DEVICE inline void StoreNumber(NumberType type, void* data, int64_t at, float value) {
  if (type == NumberType::kFloat32) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<uint16_t*>(data)[at] =
        type == NumberType::kFloat16 ? ToFloat16(value) : ToBfloat16(value);
  }
}

}  // namespace partita
