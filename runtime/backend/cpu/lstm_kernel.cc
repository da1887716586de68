#include <cmath>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

float Squash(float x) { return 1 / (1 + std::exp(-x)); }

// One unit of a cell (graph/ops/lstm_gates.h): its gates, and its states before and after.
struct UnitState {
  float i, f, g, o, before, after, squashed;
  UnitState(const float* a, const float* b, const float* c, int64_t k) {
    const auto z = [&](int64_t gate) { return a[4 * k + gate] + (b ? b[4 * k + gate] : 0.f); };
    i = Squash(z(0));
    f = Squash(z(1));
    g = std::tanh(z(2));
    o = Squash(z(3));
    before = c ? c[k] : 0.f;
    after = f * before + i * g;
    squashed = std::tanh(after);
  }
};

class LstmGatesKernel : public HostKernel {
 public:
  LstmGatesKernel(const LstmGates& gates, const KernelSignature& s)
      : is_first_(gates.first), pass_(s.pass), units_(Volume(s.inputs[0].type.shape) / 4) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    constexpr int64_t kGrain = 1024;
    ParallelBlocks(units_, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) RunUnit(arguments, k);
    });
    return absl::OkStatus();
  }

 private:
  void RunUnit(const KernelArguments& arguments, int64_t k) const {
    const auto in = [&](size_t n) { return static_cast<const float*>(arguments.inputs[n].data); };
    const auto out = [&](size_t n) { return static_cast<float*>(arguments.outputs[n].data); };
    const UnitState unit(in(0), is_first_ ? nullptr : in(1), is_first_ ? nullptr : in(2), k);
    if (pass_.is_forward()) {
      out(0)[k] = unit.o * unit.squashed;
      out(1)[k] = unit.after;
      return;
    }
    const size_t reads = is_first_ ? 1 : 3;
    const float dh = in(reads)[k];
    const float dc = in(reads + 1)[k] + dh * unit.o * (1 - unit.squashed * unit.squashed);
    if (pass_.gradient == 2) {
      out(0)[k] = dc * unit.f;
      return;
    }
    float* dz = out(0) + 4 * k;
    dz[0] = dc * unit.g * (unit.i * (1 - unit.i));
    dz[1] = dc * unit.before * (unit.f * (1 - unit.f));
    dz[2] = dc * unit.i * (1 - unit.g * unit.g);
    dz[3] = dh * unit.squashed * (unit.o * (1 - unit.o));
  }

  const bool is_first_;
  const Pass pass_;
  const int64_t units_;
};

}  // namespace

std::unique_ptr<HostKernel> MakeLstmGatesKernel(const LstmGates& gates, const KernelSignature& s) {
  if (!IsPlainFloat(s)) return nullptr;
  return std::make_unique<LstmGatesKernel>(gates, s);
}

}  // namespace partita
