#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <cstring>
#include <limits>

#include "graph/tensor.h"

namespace partita {

// The arithmetics that reference kernels are templates on. A kernel reads and writes elements of
// type T (or Wide, where the graph says so), computes in Wide, and rounds once when it stores.
//
// Real arithmetic: float or double elements; products and sums of a kernel are taken in double.
//
// Ring arithmetic: integers modulo 2^64. Sums and products are exact and associate, so any way to
// split a computation must give equal bits. Operations that a ring does not have are replaced by
// fixed functions that mix all bits: they have no meaning but are the same everywhere. 1/n is a
// fixed odd constant. Derivatives are functions of their own. Comparisons take the bits as a signed
// number.

// An integer modulo 2^64.
struct Ring64 {
  uint64_t bits = 0;

  constexpr Ring64() = default;
  constexpr explicit Ring64(uint64_t value) : bits(value) {}

  friend constexpr bool operator==(Ring64, Ring64) = default;
  friend constexpr Ring64 operator+(Ring64 a, Ring64 b) { return Ring64(a.bits + b.bits); }
  friend constexpr Ring64 operator-(Ring64 a, Ring64 b) { return Ring64(a.bits - b.bits); }
  friend constexpr Ring64 operator*(Ring64 a, Ring64 b) { return Ring64(a.bits * b.bits); }
  constexpr Ring64 operator-() const { return Ring64(uint64_t{0} - bits); }
  constexpr Ring64& operator+=(Ring64 b) { return *this = *this + b; }
  constexpr Ring64& operator-=(Ring64 b) { return *this = *this - b; }
  constexpr Ring64& operator*=(Ring64 b) { return *this = *this * b; }
};

// A fixed bijection of 64-bit words, one for each salt (SplitMix64's finalizer: Steele, Lea, Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014).
constexpr Ring64 Mix(Ring64 x, uint64_t salt) {
  uint64_t z = x.bits + salt * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return Ring64(z ^ (z >> 31));
}

// Odd constant that stands for 1/n in the ring.
constexpr Ring64 OddConstant(int64_t n) {
  return Ring64((static_cast<uint64_t>(n) * 0x9E3779B97F4A7C15u + 12345u) | 1u);
}

template <class Real>
struct RealArithmetic {
  using T = Real;
  using Wide = double;
  static constexpr bool kIsRing = false;

  static T Round(Wide x) { return static_cast<T>(x); }
  static Wide Integer(int64_t n) { return static_cast<double>(n); }
  static Wide Constant(double value) { return value; }
  static Wide OneOver(int64_t n) { return 1.0 / static_cast<double>(n); }
  static bool Less(Wide a, Wide b) { return a < b; }
  static Wide Lowest() { return -std::numeric_limits<double>::infinity(); }

  static Wide Exp(Wide x) { return std::exp(x); }
  static Wide Log(Wide x) { return std::log(x); }
  static Wide LogDerivative(Wide x) { return 1 / x; }
  static Wide Inverse(Wide x) { return 1 / x; }
  static Wide InverseDerivative(Wide x) { return -1 / (x * x); }
  static Wide Erf(Wide x) { return std::erf(x); }
  static Wide ErfDerivative(Wide x) { return 1.1283791670955126 * std::exp(-x * x); }
  static Wide Sigmoid(Wide x) { return 1 / (1 + std::exp(-x)); }
  static Wide Tanh(Wide x) { return std::tanh(x); }
  static Wide Sqrt(Wide x) { return std::sqrt(x); }
  static Wide Rsqrt(Wide x) { return 1 / std::sqrt(x); }
  static Wide RsqrtDerivative(Wide x) { return -0.5 / (x * std::sqrt(x)); }
  static Wide Power(Wide x, double exponent) { return std::pow(x, exponent); }
  static Wide PowerDerivative(Wide x, double exponent) {
    return exponent * std::pow(x, exponent - 1);
  }
};

struct RingArithmetic {
  using T = Ring64;
  using Wide = Ring64;
  static constexpr bool kIsRing = true;

  static T Round(Wide x) { return x; }
  static Wide Integer(int64_t n) { return Ring64(static_cast<uint64_t>(n)); }
  // 0, 1 and -1 stand for themselves, every other real for a fixed odd number.
  static Wide Constant(double value) {
    if (value == 0 || value == 1 || value == -1) return Integer(static_cast<int64_t>(value));
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return Ring64(Mix(Ring64(bits), 11).bits | 1u);
  }
  static Wide OneOver(int64_t n) { return OddConstant(n); }
  static bool Less(Wide a, Wide b) {
    return static_cast<int64_t>(a.bits) < static_cast<int64_t>(b.bits);
  }
  static Wide Lowest() { return Ring64(uint64_t{1} << 63); }

  static Wide Exp(Wide x) { return Mix(x, 1); }
  static Wide Inverse(Wide x) { return Mix(x, 2); }
  static Wide Rsqrt(Wide x) { return Mix(x, 3); }
  static Wide Log(Wide x) { return Mix(x, 4); }
  static Wide RsqrtDerivative(Wide x) { return Mix(x, 5); }
  static Wide Power(Wide x, double exponent) { return Mix(x + Constant(exponent), 8); }
  static Wide PowerDerivative(Wide x, double exponent) { return Mix(x + Constant(exponent), 9); }
  static Wide InverseDerivative(Wide x) { return Mix(x, 10); }
  static Wide Sqrt(Wide x) { return Mix(x, 12); }
  static Wide LogDerivative(Wide x) { return Mix(x, 14); }
  static Wide Erf(Wide x) { return Mix(x, 15); }
  static Wide ErfDerivative(Wide x) { return Mix(x, 16); }
  static Wide Sigmoid(Wide x) { return Mix(x, 17); }
  static Wide Tanh(Wide x) { return Mix(x, 18); }
};

using FloatArithmetic = RealArithmetic<float>;
using DoubleArithmetic = RealArithmetic<double>;

// The element type of a buffer of T.
template <class T>
constexpr DType DTypeOf();
template <>
constexpr DType DTypeOf<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType DTypeOf<Ring64>() {
  return DType::kRing64;
}

}  // namespace partita
