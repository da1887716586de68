#pragma once

#include <type_traits>
#include <variant>

#include "runtime/backend/reference/tensor_piece.h"

namespace partita {

// Whether `Row` is one of the rows of the operator table that the variant `Family` lists. Families
// of operators with small kernels share a source file and one entry per arithmetic.
template <class Row, class Family>
inline constexpr bool kIsRowOf = false;
template <class Row, class... Rows>
inline constexpr bool kIsRowOf<Row, std::variant<Rows...>> = (std::is_same_v<Row, Rows> || ...);

// A launch as kernels see it.
struct Launch {
  const KernelSignature& signature;
  const KernelArguments& arguments;

  template <class T>
  TensorPiece<const T> In(size_t k) const {
    return Input<T>(signature, arguments, k);
  }
  template <class T>
  TensorPiece<T> Out(size_t k = 0) const {
    return Output<T>(signature, arguments, k);
  }
};

}  // namespace partita
