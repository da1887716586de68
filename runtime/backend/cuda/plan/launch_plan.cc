#include "runtime/backend/cuda/plan/launch_plan.h"

#include <algorithm>
#include <span>

#include "graph/support/status_macros.h"

namespace partita {
namespace {

// A planned address: the number of a piece of memory above kOffsetBits, and the distance from its
// start below. 0 is none. Piece 1 is the scratch memory; then come inputs, then outputs.
constexpr int kOffsetBits = 48;
constexpr uintptr_t kMostOffset = (uintptr_t{1} << kOffsetBits) - 1;
constexpr size_t kScratchPiece = 1, kFirstInput = 2;

void* PlannedAddress(size_t piece) {
  return reinterpret_cast<void*>(uintptr_t{piece} << kOffsetBits);
}

// Pieces of the same places; those that are present get planned addresses.
std::vector<TensorArgument> WithPlannedAddresses(const std::vector<KernelTensor>& tensors,
                                                 std::span<const TensorArgument> given,
                                                 size_t first) {
  std::vector<TensorArgument> planned(given.begin(), given.end());
  for (size_t k = 0; k < planned.size(); ++k) {
    const bool present = k < tensors.size() && tensors[k].present;
    planned[k].data = present ? PlannedAddress(first + k) : nullptr;
  }
  return planned;
}

bool LieAlike(std::span<const TensorArgument> a, std::span<const TensorArgument> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TensorArgument& p, const TensorArgument& q) {
                      return p.box == q.box && p.global == q.global;
                    });
}

}  // namespace

LaunchPlan::LaunchPlan(KernelSteps plan, const KernelArguments& arguments)
    : plan_(std::move(plan)),
      input_count_(arguments.inputs.size()),
      output_count_(arguments.outputs.size()),
      operator_key_(arguments.operator_key) {
  if (!plan_.depends_on_place) return;
  inputs_.assign(arguments.inputs.begin(), arguments.inputs.end());
  outputs_.assign(arguments.outputs.begin(), arguments.outputs.end());
}

absl::StatusOr<LaunchPlan> LaunchPlan::Make(const KernelSignature& signature,
                                            const KernelArguments& arguments,
                                            const KernelOptions& options) {
  static_assert(sizeof(uintptr_t) == 8);
  const auto inputs = WithPlannedAddresses(signature.inputs, arguments.inputs, kFirstInput);
  const auto outputs = WithPlannedAddresses(signature.outputs, arguments.outputs,
                                            kFirstInput + arguments.inputs.size());
  const KernelArguments planned{inputs, outputs, arguments.step, arguments.operator_key};
  ASSIGN_OR_RETURN(KernelSteps plan,
                   PlanKernel(signature, planned, PlannedAddress(kScratchPiece), options));
  return LaunchPlan(std::move(plan), planned);
}

absl::StatusOr<LaunchPlan> LaunchPlan::Make(const KernelSignature& signature,
                                            const KernelOptions& options) {
  const WholePieces pieces = WholePiecesOf(signature);
  return Make(signature, {pieces.inputs, pieces.outputs, {}, 0}, options);
}

bool LaunchPlan::Suits(const KernelArguments& arguments) const {
  const bool counts =
      arguments.inputs.size() == input_count_ && arguments.outputs.size() == output_count_;
  if (!counts || !plan_.depends_on_place) return counts;
  return arguments.operator_key == operator_key_ && LieAlike(arguments.inputs, inputs_) &&
         LieAlike(arguments.outputs, outputs_);
}

uintptr_t LaunchPlan::Addresses::AddressOf(uintptr_t planned) const {
  if (planned == 0) return 0;
  const size_t piece = planned >> kOffsetBits;
  const size_t inputs = arguments.inputs.size();
  const void* start = piece == kScratchPiece ? memory.scratch
                      : piece < kFirstInput + inputs
                          ? arguments.inputs[piece - kFirstInput].data
                          : arguments.outputs[piece - kFirstInput - inputs].data;
  return reinterpret_cast<uintptr_t>(start) + (planned & kMostOffset);
}

absl::StatusOr<std::unique_ptr<LaunchPlans>> LaunchPlans::Make(const KernelSignature& signature,
                                                               const KernelOptions& options) {
  ASSIGN_OR_RETURN(LaunchPlan whole, LaunchPlan::Make(signature, options));
  return std::unique_ptr<LaunchPlans>(new LaunchPlans(std::move(whole), signature, options));
}

absl::StatusOr<const LaunchPlan*> LaunchPlans::Of(const KernelArguments& arguments) {
  if (whole_.Suits(arguments)) return &whole_;
  std::lock_guard lock(mutex_);
  for (const auto& plan : placed_) {
    if (plan->Suits(arguments)) return plan.get();
  }
  ASSIGN_OR_RETURN(LaunchPlan made, LaunchPlan::Make(signature_, arguments, options_));
  placed_.push_back(std::make_unique<LaunchPlan>(std::move(made)));
  return placed_.back().get();
}

}  // namespace partita
