#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/ops.h"
#include "graph/precision.h"
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

// Place of an operator's input or output among the tensors of its kernel.
struct TensorPlace {
  enum class List : uint8_t { kInput, kOutput, kInner };
  List list = List::kInput;
  int32_t index = 0;

  friend auto operator<=>(const TensorPlace&, const TensorPlace&) = default;
  template <class H>
  friend H AbslHashValue(H h, const TensorPlace& a) {
    return H::combine(std::move(h), a.list, a.index);
  }
};

// Places where an operator of a fused kernel reads and writes.
struct Wiring {
  std::vector<TensorPlace> inputs, outputs;

  friend bool operator==(const Wiring&, const Wiring&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Wiring& a) {
    return H::combine(std::move(h), a.inputs, a.outputs);
  }
};

// An operator that a kernel does after others.
struct FusedOperator {
  OpAttrs attrs;
  Pass pass;
  Wiring wiring;

  friend bool operator==(const FusedOperator&, const FusedOperator&) = default;
};

// Operators that one kernel does one after the other: the first is that of the signature.
struct Fusion {
  Wiring first;
  std::vector<FusedOperator> rest;  // in the order in which they run; empty: nothing is fused
  std::vector<KernelTensor> inner;  // tensors that they hand to each other and do not store

  friend bool operator==(const Fusion&, const Fusion&) = default;
};

// Signature of a compute kernel: the unit that is priced, profiled and executed. It has no offsets
// and no device; two parts with equal signatures do the same work.
struct KernelSignature {
  OpAttrs attrs;  // the part's (see Localize)
  Pass pass;
  std::vector<KernelTensor> inputs;
  std::vector<KernelTensor> outputs;
  // Short chain of operators in one kernel: a convolution and the ReLU that is applied to its
  // result before it is stored; the gradient of a weight and the update that takes it without its
  // being stored; the moments of a batch and the normalisation by them.
  Fusion fusion = {};
  // Backends without it compute in float32, which is more exact.
  Precision compute_type = Precision::kFloat32;
  // False: its bits may differ from run to run, by the order in which products are summed. Backends
  // without such kernels that are faster, as those of cores, compute it as if it were true.
  bool deterministic = true;

  bool is_fused() const { return !fusion.rest.empty(); }
  friend bool operator==(const KernelSignature&, const KernelSignature&) = default;
  template <class H>
  friend H AbslHashValue(H h, const KernelSignature& a) {
    h = HashAttrs(std::move(h), a.attrs);
    for (const FusedOperator& other : a.fusion.rest) {
      h = H::combine(HashAttrs(std::move(h), other.attrs), other.pass, other.wiring);
    }
    return H::combine(std::move(h), a.pass, a.inputs, a.outputs, a.fusion.rest.size(),
                      a.fusion.first, a.fusion.inner, a.compute_type, a.deterministic);
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

// Kernel of one of the operators of a fused kernel, as if it ran alone.
struct KernelStage {
  KernelSignature kernel;
  Wiring wiring;
};
// The kernel with this compute type; the same kernel if it has no products.
KernelSignature InPrecision(KernelSignature signature, Precision precision);
// The kernel with that in KernelSignature::deterministic; the same kernel if it has no products.
KernelSignature WithDeterminism(KernelSignature signature, bool deterministic);

// Stages of a kernel in the order in which they run; one, of all its tensors, where nothing is
// fused.
std::vector<KernelStage> StagesOf(const KernelSignature& signature);

// The kernel and, after it, an epilogue (IsEpilogue) in place on the last operator's only result.
KernelSignature WithEpilogue(KernelSignature kernel, const OpAttrs& epilogue);
// Whether the kernel is that of one operator with an epilogue.
bool HasOnlyEpilogue(const KernelSignature& signature);

// The kernel and, after it, `next`. links[k]: where the kernel has input k of `next`; nullopt: it
// is a new input, the last so far. Results of `next` are new outputs, the last so far.
using InputLinks = std::vector<std::optional<TensorPlace>>;
KernelSignature Fused(KernelSignature kernel, const KernelSignature& next, const InputLinks& links);
// The kernel of a weight's gradient and, after it, the weight's update: inputs are the gradient's,
// then the update's without the gradient, which is not stored; outputs are the update's.
KernelSignature FusedUpdate(const KernelSignature& gradient, const KernelSignature& update);
// Whether the last operator is such an update.
bool EndsInUpdate(const KernelSignature& signature);

// Pairs of outputs and inputs that may share memory.
std::vector<InPlacePair> InPlace(const KernelSignature& signature);

// Canonical text, e.g. "matmul.d1 transposed=true (f32[32,9216],f32[32,4096])->(f32[4096,9216])":
// the key of profile databases. Of another compute type than float32 it ends in " precision=NAME",
// before which stands " nondeterministic" where it is that.
std::string ToString(const KernelSignature& signature);
// The part of it that says what follows the first operator; empty where nothing is fused.
std::string FusionText(const KernelSignature& signature);

// Arithmetic, and the bytes that the kernel must at least read and write.
Work WorkOf(const KernelSignature& signature);
int64_t MinimumBytes(const KernelSignature& signature);

// Signature of a move within a device: copies, sums and zero fills of boxes, and changes of element
// type or format. Priced and profiled like a kernel.
struct MoveSignature {
  enum class Kind : uint8_t { kFill, kCopy, kAdd, kMax, kReorder };
  Kind kind = Kind::kCopy;
  DType dtype = DType::kFloat32;  // element type of what is written
  int64_t elements = 0;
  int64_t run = 0;     // elements in one contiguous run on the more scattered side
  DType from = dtype;  // element type of what is read; another one only for kReorder

  friend bool operator==(const MoveSignature&, const MoveSignature&) = default;
  template <class H>
  friend H AbslHashValue(H h, const MoveSignature& a) {
    return H::combine(std::move(h), a.kind, a.dtype, a.elements, a.run, a.from);
  }
};
std::string ToString(const MoveSignature& signature);
// Bytes of the side that has more.
int64_t BytesOf(const MoveSignature& signature);

}  // namespace partita
