#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace partita {

// An integer that does not mix with other integers: ids that index vectors, and quantities with a
// unit. Construction and reading (`value()`) are explicit. Quantities add and subtract; ids only
// compare.
template <class Tag, class T>
class StrongInt {
 public:
  using Value = T;
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(T value) : value_(value) {}

  constexpr T value() const { return value_; }
  constexpr size_t index() const { return static_cast<size_t>(value_); }

  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;
  constexpr StrongInt& operator+=(StrongInt b)
    requires Tag::kIsQuantity
  {
    value_ += b.value_;
    return *this;
  }
  constexpr StrongInt& operator-=(StrongInt b)
    requires Tag::kIsQuantity
  {
    value_ -= b.value_;
    return *this;
  }
  friend constexpr StrongInt operator+(StrongInt a, StrongInt b)
    requires Tag::kIsQuantity
  {
    return StrongInt(a.value_ + b.value_);
  }
  friend constexpr StrongInt operator-(StrongInt a, StrongInt b)
    requires Tag::kIsQuantity
  {
    return StrongInt(a.value_ - b.value_);
  }
  friend constexpr StrongInt operator*(StrongInt a, T b)
    requires Tag::kIsQuantity
  {
    return StrongInt(a.value_ * b);
  }

  template <class H>
  friend H AbslHashValue(H h, StrongInt a) {
    return H::combine(std::move(h), a.value_);
  }

 private:
  T value_ = 0;
};

struct IdTag {
  static constexpr bool kIsQuantity = false;
};
struct QuantityTag {
  static constexpr bool kIsQuantity = true;
};

// Dense ids: an operator or tensor of a Graph, a device of a machine.
struct OpIdTag : IdTag {};
struct TensorIdTag : IdTag {};
struct DeviceIdTag : IdTag {};
using OpId = StrongInt<OpIdTag, int32_t>;
using TensorId = StrongInt<TensorIdTag, int32_t>;
using DeviceId = StrongInt<DeviceIdTag, int32_t>;

// Time and memory. Integers, so that sums do not depend on their order.
struct NanosTag : QuantityTag {};
struct BytesTag : QuantityTag {};
using Nanos = StrongInt<NanosTag, int64_t>;
using Bytes = StrongInt<BytesTag, int64_t>;

}  // namespace partita
