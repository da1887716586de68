#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "runtime/backend/cuda/host_device_code.h"

namespace partita {

// A functor whose time is that of its reads and writes has, instead of operator()(i), a type
// Operands with
//   Load(i)             reads what element i needs
//   Store(i, operands)  computes and writes it
// so that a thread reads several elements before it waits for the first. The same for the terms of
// a reduction: Load(row, k), and Add(partial, operands).
template <class F, class = void>
struct ReadsFirst : std::false_type {};
template <class F>
struct ReadsFirst<F, std::void_t<typename F::Operands>> : std::true_type {};

// A functor all of whose operands and results lie in order has VisitVectors(visit), which calls
// visit(pointer) for each, and StoreVector<n>(i, operands), which stores n neighbours: where all
// pointers suit vectors, four neighbours are read and written at once.
template <class F, class = void>
struct HasVectors : std::false_type {};
struct VectorVisitor {
  template <class T>
  PARTITA_HOST_DEVICE void operator()(T*&) const {}
};
template <class F>
struct HasVectors<F, std::void_t<decltype(std::declval<F&>().VisitVectors(VectorVisitor()))>>
    : std::true_type {};

template <class F>
PARTITA_HOST_DEVICE void ApplyElement(const F& functor, int64_t i) {
  if constexpr (ReadsFirst<F>::value) {
    functor.Store(i, functor.Load(i));
  } else {
    functor(i);
  }
}

template <class F>
PARTITA_HOST_DEVICE void AddTerm(const F& functor, typename F::Partial& partial, int64_t row,
                                 int64_t k) {
  if constexpr (ReadsFirst<F>::value) {
    functor.Add(partial, functor.Load(row, k));
  } else {
    functor.Add(partial, row, k);
  }
}

}  // namespace partita
