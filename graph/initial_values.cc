#include "graph/initial_values.h"

#include <algorithm>
#include <cmath>

#include "graph/support/check.h"
#include "graph/support/fingerprint.h"
#include "graph/support/philox.h"

namespace partita {

std::vector<float> InitialValues(const Tensor& tensor, const Weight& weight, uint64_t seed) {
  CHECK(weight.tensor == tensor.id);
  if (weight.values != nullptr) return *weight.values;
  const Initializer& initializer = weight.initializer;
  std::vector<float> values(static_cast<size_t>(Volume(tensor.type.shape)),
                            static_cast<float>(initializer.value));
  if (initializer.kind == Initializer::Kind::kConstant) return values;
  const double fan_in = static_cast<double>(std::max<int64_t>(1, initializer.fan_in));
  const auto bound = static_cast<float>(1 / std::sqrt(fan_in));
  const uint64_t stream = FingerprintOf(tensor.name);
  for (size_t begin = 0; begin < values.size(); begin += 4) {
    const auto words = PhiloxBlock(seed, stream, begin / 4);
    const size_t count = std::min<size_t>(4, values.size() - begin);
    for (size_t k = 0; k < count; ++k) values[begin + k] = bound * (2 * UnitFloat(words[k]) - 1);
  }
  return values;
}

}  // namespace partita
