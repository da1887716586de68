#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/ops.h"
#include "graph/tensor.h"

namespace partita {

// Order of the elements in a buffer. kDense: row-major. kNative: the backend's own order for a
// tensor of this type (channel-blocked activations and weights); what it is and how many bytes it
// takes is fixed by the backend and the tensor's type only, so that equal boxes can be summed and
// updated without unpacking.
enum class Format : uint8_t { kDense, kNative };

// One input or output of a kernel: the part's piece of a tensor.
struct KernelTensor {
  TensorType type;
  Format format = Format::kDense;
  bool present = true;  // false: this part does not read it (an operand that is read once)

  friend bool operator==(const KernelTensor&, const KernelTensor&) = default;
  template <class H>
  friend H AbslHashValue(H h, const KernelTensor& a) {
    return H::combine(std::move(h), a.type, a.format, a.present);
  }
};

// Signature of a compute kernel: the unit that is priced, profiled and executed. It has no offsets
// and no device; two parts with equal signatures do the same work.
struct KernelSignature {
  OpAttrs attrs;  // the part's (see Localize)
  Pass pass;
  std::vector<KernelTensor> inputs;
  std::vector<KernelTensor> outputs;
  // A ReLU applied to the first output before it is stored.
  bool fused_relu = false;
  // Update (Sgd, Adam) that takes a weight's gradient directly, without storing it: inputs are the
  // operator's, then the update's without the gradient; outputs are the update's.
  std::optional<OpAttrs> fused_update = {};

  friend bool operator==(const KernelSignature&, const KernelSignature&) = default;
  template <class H>
  friend H AbslHashValue(H h, const KernelSignature& a) {
    h = HashAttrs(std::move(h), a.attrs);
    if (a.fused_update.has_value()) h = HashAttrs(std::move(h), *a.fused_update);
    return H::combine(std::move(h), a.pass, a.inputs, a.outputs, a.fused_relu,
                      a.fused_update.has_value());
  }

 private:
  template <class H>
  static H HashAttrs(H h, const OpAttrs& attrs) {
    return std::visit(
        [&](const auto& fields) {
          return HashFields(H::combine(std::move(h), attrs.index()), fields);
        },
        attrs);
  }
};

// Number of inputs of the operator's own kernel, whose output is the gradient, in a kernel with a
// fused update. They come first.
size_t OwnInputs(const KernelSignature& signature);
KernelSignature GradientKernel(const KernelSignature& signature);
KernelSignature UpdateKernel(const KernelSignature& signature);

// Pairs of outputs and inputs that may share memory.
std::vector<InPlacePair> InPlace(const KernelSignature& signature);

// Canonical text, e.g. "matmul.d1 transposed=true (f32[32,9216],f32[32,4096])->(f32[4096,9216])":
// the key of profile databases.
std::string ToString(const KernelSignature& signature);

// Arithmetic, and the bytes that the kernel must at least read and write.
Work WorkOf(const KernelSignature& signature);
int64_t MinimumBytes(const KernelSignature& signature);

// Signature of a move within a device: copies, sums and zero fills of boxes. Priced and profiled
// like a kernel.
struct MoveSignature {
  enum class Kind : uint8_t { kFill, kCopy, kAdd, kMax, kReorder };
  Kind kind = Kind::kCopy;
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
  int64_t run = 0;  // elements in one contiguous run on the more scattered side

  friend bool operator==(const MoveSignature&, const MoveSignature&) = default;
  template <class H>
  friend H AbslHashValue(H h, const MoveSignature& a) {
    return H::combine(std::move(h), a.kind, a.dtype, a.elements, a.run);
  }
};
std::string ToString(const MoveSignature& signature);

}  // namespace partita
