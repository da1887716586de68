#include "graph/ops/softmax.h"

namespace partita {

std::vector<InPlacePair> InPlace(const SoftmaxApply&, Pass) { return {{0, 0}}; }

std::vector<InPlacePair> InPlace(const SoftmaxGrad&, Pass) { return {{3, 0}, {0, 0}}; }

std::vector<InPlacePair> InPlace(const LogSoftmaxApply&, Pass) { return {{0, 0}}; }

std::vector<InPlacePair> InPlace(const LogSoftmaxGrad&, Pass) { return {{3, 0}, {0, 0}}; }

}  // namespace partita
