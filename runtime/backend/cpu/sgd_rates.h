#pragma once

#include "runtime/backend/kernel_arguments.h"

namespace partita {

// SGD's formula (see Sgd in graph/ops/update.h) in float.
struct SgdRates {
  SgdRates(const StepArguments& step, bool with_nesterov)
      : rate(static_cast<float>(step.learning_rate)),
        momentum(static_cast<float>(step.momentum)),
        decay(static_cast<float>(step.weight_decay)),
        nesterov(with_nesterov) {}

  // The velocity and the weight after the step; T: a float or a vector of them.
  template <class T>
  void Step(const T& gradient_of_loss, const T& w, const T& v, T& w_next, T& v_next) const {
    const T gradient = gradient_of_loss + decay * w;
    const T velocity = momentum * v + gradient;
    w_next = w - rate * (nesterov ? gradient + momentum * velocity : velocity);
    v_next = velocity;
  }

  float rate, momentum, decay;
  bool nesterov;
};

}  // namespace partita
