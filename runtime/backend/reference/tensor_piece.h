#pragma once

#include <cstdint>
#include <type_traits>

#include "graph/support/check.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/backend/reference/arithmetic.h"

namespace partita {

// One input or output as a kernel sees it: row-major elements over the part's box.
template <class T>
struct TensorPiece {
  T* data = nullptr;     // null if absent or empty
  bool present = false;  // false: not read, or not to be written
  Shape shape;           // local extents
  Box box;               // global indices
  Shape global;          // extents of the whole tensor

  int64_t size() const { return Volume(shape); }
  int64_t extent(size_t d) const { return shape[d]; }
};

template <class T>
TensorPiece<T> MakeTensorPiece(const KernelTensor& tensor, const TensorArgument& argument) {
  CHECK(tensor.type.dtype == DTypeOf<std::remove_const_t<T>>())
      << "a kernel was given " << ToString(tensor.type);
  return {static_cast<T*>(argument.data), tensor.present, tensor.type.shape, argument.box,
          argument.global};
}

// Input or output `k` of a launch. T is the element type that the operator's rule of types implies.
template <class T>
TensorPiece<const T> Input(const KernelSignature& signature, const KernelArguments& arguments,
                           size_t k) {
  return MakeTensorPiece<const T>(signature.inputs[k], arguments.inputs[k]);
}
template <class T>
TensorPiece<T> Output(const KernelSignature& signature, const KernelArguments& arguments,
                      size_t k = 0) {
  return MakeTensorPiece<T>(signature.outputs[k], arguments.outputs[k]);
}

}  // namespace partita
