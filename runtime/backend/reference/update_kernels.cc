#include "runtime/backend/reference/update_kernels.h"

#include <algorithm>
#include <cmath>

namespace partita {
namespace {

template <class A>
void Run(const Sgd& sgd, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto w = launch.In<T>(0);
  const auto g = launch.In<T>(1);
  const auto v = launch.In<T>(2);
  const auto w_next = launch.Out<T>(0);
  const auto v_next = launch.Out<T>(1);
  const StepArguments& step = launch.arguments.step;
  const Wide rate = A::Constant(step.learning_rate);
  const Wide momentum = A::Constant(step.momentum);
  const Wide decay = A::Constant(step.weight_decay);
  for (int64_t i = 0; i < w.size(); ++i) {
    const Wide weight(w.data[i]);
    const Wide gradient = Wide(g.data[i]) + decay * weight;
    const Wide velocity = momentum * Wide(v.data[i]) + gradient;
    const Wide direction = sgd.nesterov ? gradient + momentum * velocity : velocity;
    w_next.data[i] = A::Round(weight - rate * direction);
    v_next.data[i] = A::Round(velocity);
  }
}

template <class A>
void Run(const Adam&, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto w = launch.In<T>(0);
  const auto g = launch.In<T>(1);
  const auto m = launch.In<T>(2);
  const auto v = launch.In<T>(3);
  const StepArguments& step = launch.arguments.step;
  const double t = static_cast<double>(step.step + 1);
  const Wide rate = A::Constant(step.learning_rate);
  const Wide decay = A::Constant(step.weight_decay);
  const Wide epsilon = A::Constant(step.epsilon);
  const Wide keep1 = A::Constant(step.beta1), take1 = A::Constant(1 - step.beta1);
  const Wide keep2 = A::Constant(step.beta2), take2 = A::Constant(1 - step.beta2);
  const Wide correct1 = A::Constant(1 / (1 - std::pow(step.beta1, t)));
  const Wide correct2 = A::Constant(1 / (1 - std::pow(step.beta2, t)));
  for (int64_t i = 0; i < w.size(); ++i) {
    const Wide weight(w.data[i]);
    const Wide gradient = Wide(g.data[i]) + decay * weight;
    const Wide first = keep1 * Wide(m.data[i]) + take1 * gradient;
    const Wide second = keep2 * Wide(v.data[i]) + take2 * gradient * gradient;
    const Wide scale = A::Inverse(A::Sqrt(second * correct2) + epsilon);
    launch.Out<T>(0).data[i] = A::Round(weight - rate * (first * correct1) * scale);
    launch.Out<T>(1).data[i] = A::Round(first);
    launch.Out<T>(2).data[i] = A::Round(second);
  }
}

// old moves towards sample(i) by the momentum.
template <class A, class Sample>
void MoveTowards(const RunningFields& fields, const Launch& launch, Sample&& sample) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto old = launch.In<T>(0);
  const auto next = launch.Out<T>();
  const Wide keep = A::Constant(1 - fields.momentum), take = A::Constant(fields.momentum);
  for (int64_t c = 0; c < old.size(); ++c) {
    next.data[c] = A::Round(keep * Wide(old.data[c]) + take * sample(c));
  }
}

template <class A>
void Run(const RunningMean& running, const Launch& launch) {
  using Wide = typename A::Wide;
  const auto s1 = launch.In<Wide>(1);
  const Wide one_over_n = A::OneOver(running.count);
  MoveTowards<A>(running, launch, [&](int64_t c) { return s1.data[c] * one_over_n; });
}

template <class A>
void Run(const RunningVariance& running, const Launch& launch) {
  using Wide = typename A::Wide;
  const auto s1 = launch.In<Wide>(1);
  const auto s2 = launch.In<Wide>(2);
  const Wide one_over_n = A::OneOver(running.count);
  const double n = static_cast<double>(running.count);
  const Wide unbias = A::Constant(n / std::max(n - 1, 1.0));
  MoveTowards<A>(running, launch, [&](int64_t c) {
    const Wide mean = s1.data[c] * one_over_n;
    return (s2.data[c] * one_over_n - mean * mean) * unbias;
  });
}

}  // namespace

template <class A>
absl::Status RunUpdateKernel(const UpdateRow& row, A, const Launch& launch) {
  std::visit([&](const auto& update) { Run<A>(update, launch); }, row);
  return absl::OkStatus();
}

template absl::Status RunUpdateKernel(const UpdateRow&, FloatArithmetic, const Launch&);
template absl::Status RunUpdateKernel(const UpdateRow&, DoubleArithmetic, const Launch&);
template absl::Status RunUpdateKernel(const UpdateRow&, RingArithmetic, const Launch&);

}  // namespace partita
