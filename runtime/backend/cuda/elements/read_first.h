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
//
// Functors have VisitPointers(visit), which calls visit(pointers...) with references to their
// pointers, and to their StepNumbersArgument where they have one; or VisitVectors alone, where that
// visits all of them (VisitPointersOf).
template <class F, class = void>
struct ReadsFirst : std::false_type {};
template <class F>
struct ReadsFirst<F, std::void_t<typename F::Operands>> : std::true_type {};

// A functor whose elements lie in order in some of its pointers has VisitVectors(visit), which calls
// visit with references to these: where they suit vectors, four neighbours are read and written at
// once. Those that share work have StoreVector<n>(i, operands), which stores n of them.
template <class F, class = void>
struct HasVectors : std::false_type {};
struct VectorVisitor {
  template <class... T>
  PARTITA_HOST_DEVICE void operator()(T*&...) const {}
};
template <class F>
struct HasVectors<F, std::void_t<decltype(std::declval<F&>().VisitVectors(VectorVisitor()))>>
    : std::true_type {};

template <class F, class = void>
struct StoresVectors : std::false_type {};
template <class F>
struct StoresVectors<F, std::void_t<decltype(std::declval<const F&>().template StoreVector<4>(
                            0, std::declval<const typename F::Operands*>()))>> : std::true_type {};
// Stores four neighbours from element i on.
template <class F, class Int>
PARTITA_HOST_DEVICE void StoreFour(const F& functor, Int i, const typename F::Operands* operands) {
  if constexpr (StoresVectors<F>::value) {
    functor.template StoreVector<4>(i, operands);
  } else {
    for (int k = 0; k < 4; ++k) functor.Store(i + k, operands[k]);
  }
}

template <class F, class = void>
struct VisitsPointers : std::false_type {};
template <class F>
struct VisitsPointers<F, std::void_t<decltype(std::declval<F&>().VisitPointers(VectorVisitor()))>>
    : std::true_type {};
// Calls visit with references to all pointers of a functor.
template <class F, class Visit>
PARTITA_HOST_DEVICE void VisitPointersOf(F& functor, Visit&& visit) {
  if constexpr (VisitsPointers<F>::value) {
    functor.VisitPointers(visit);
  } else {
    functor.VisitVectors(visit);
  }
}

// Some have suits_vectors(), which says whether their other operands, too, allow four at once.
template <class F, class = void>
struct AsksForVectors : std::false_type {};
template <class F>
struct AsksForVectors<F, std::void_t<decltype(std::declval<const F&>().suits_vectors())>>
    : std::true_type {};
template <class F>
bool TakesVectors(const F& functor) {
  if constexpr (HasVectors<F>::value && AsksForVectors<F>::value) return functor.suits_vectors();
  return HasVectors<F>::value;
}

struct FindUnaligned {
  bool* unaligned;
  template <class... T>
  PARTITA_HOST_DEVICE void operator()(T*&... data) const {
    *unaligned = (... || (reinterpret_cast<uintptr_t>(data) % (4 * sizeof(*data)) != 0));
  }
};
// Whether four neighbours are read and written at once: addresses have to suit, too.
template <class F>
bool SuitsVectors(F functor) {
  bool unaligned = false;
  if constexpr (HasVectors<F>::value) functor.VisitVectors(FindUnaligned{&unaligned});
  return TakesVectors(functor) && !unaligned;
}

// Number of blocks of a launch that has `count` things to do, each block `of_block` of them at once.
inline uint32_t BlocksFor(int64_t count, int64_t of_block, int64_t most) {
  const int64_t blocks = (count + of_block - 1) / of_block;
  return static_cast<uint32_t>(blocks < most ? blocks : most);
}

// Elements are counted in 32 bits up to this number, so that eight places of each have 32 bits, too;
// in 64 bits beyond.
constexpr int64_t kMostSmallCount = int64_t{1} << 28;

// Calls call(index) with a zero of the type that counts `count` elements.
template <class Call>
decltype(auto) WithIndex(int64_t count, Call&& call) {
  return count <= kMostSmallCount ? call(int32_t{0}) : call(int64_t{0});
}

template <class F, class Int>
PARTITA_HOST_DEVICE void ApplyElement(const F& functor, Int i) {
  if constexpr (ReadsFirst<F>::value) {
    functor.Store(i, functor.Load(i));
  } else {
    functor(i);
  }
}

template <class F, class Int>
PARTITA_HOST_DEVICE void AddTerm(const F& functor, typename F::Partial& partial, Int row, Int k) {
  if constexpr (ReadsFirst<F>::value) {
    functor.Add(partial, functor.Load(row, k));
  } else {
    functor.Add(partial, row, k);
  }
}

}  // namespace partita
