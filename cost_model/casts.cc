#include "cost_model/casts.h"

#include <algorithm>

namespace partita {
namespace {

constexpr size_t kFactors = 2;  // the first operands of a product, of all of its passes
constexpr int64_t kFactorBytes = 2;

// A tensor is read and written once more than in float32, in 16 bits each time.
void AddTensor(const KernelTensor& tensor, Casts& casts) {
  const int64_t elements = tensor.present ? Volume(tensor.type.shape) : 0;
  casts.bytes += 2 * kFactorBytes * elements;
  casts.scratch_bytes += kFactorBytes * elements;
  ++casts.kernels;
}

}  // namespace

Casts CastsOf(const KernelSignature& signature) {
  const Precision precision = signature.compute_type;
  Casts casts;
  const bool converts = precision == Precision::kFloat16 || precision == Precision::kBfloat16;
  if (!converts || WorkOf(signature).multiply_adds == 0) return casts;
  for (size_t k = 0; k < std::min(kFactors, signature.inputs.size()); ++k) {
    AddTensor(signature.inputs[k], casts);
    if (precision != Precision::kFloat16) continue;
    casts.bytes += signature.inputs[k].type.bytes();
    ++casts.kernels;
  }
  if (CastsResult(signature.attrs)) AddTensor(signature.outputs[0], casts);
  return casts;
}

}  // namespace partita
