#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/backend/cuda/plan/kernel_steps.h"

namespace partita {

// A kernel's steps, made once for launches that differ in addresses and in the step's numbers. Until
// a launch tells them, a pointer holds the number of a piece of memory (the launch's scratch memory,
// an input or an output) and a distance from its start.
class LaunchPlan {
 public:
  // Plans launches whose pieces lie where these arguments' do, whose addresses are not read. Errors:
  // PlanKernel's.
  static absl::StatusOr<LaunchPlan> Make(const KernelSignature& signature,
                                         const KernelArguments& arguments,
                                         const KernelOptions& options);
  // Plans launches of a signature's whole tensors.
  static absl::StatusOr<LaunchPlan> Make(const KernelSignature& signature,
                                         const KernelOptions& options);

  // Whether this launch is planned here: of as many inputs and outputs, and, where steps depend on it
  // (dropout's random numbers, a part's classes or rows of a table), of the same boxes and operator.
  bool Suits(const KernelArguments& arguments) const;

  // Steps without addresses, for what follows from shapes.
  const KernelSteps& steps() const { return plan_; }

  // Calls run(step) for the steps of a launch, in order, with its addresses and numbers, until one
  // is not OK. The launch Suits.
  template <class Run>
  absl::Status ForEachStep(const KernelArguments& arguments, const LaunchMemory& memory,
                           Run&& run) const {
    const Addresses addresses{arguments, memory};
    for (const KernelStep& step : plan_.steps) {
      absl::Status status = std::visit(
          [&](auto work) -> absl::Status {  // a copy
            work.VisitPointers(addresses);
            return run(work);
          },
          step);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  // Sets pointers to a launch's addresses.
  struct Addresses {
    const KernelArguments& arguments;
    const LaunchMemory& memory;

    template <class... T>
    void operator()(T&... pointers) const {
      (Set(pointers), ...);
    }

   private:
    template <class T>
    void Set(T*& pointer) const {
      pointer = reinterpret_cast<T*>(AddressOf(reinterpret_cast<uintptr_t>(pointer)));
    }
    void Set(StepNumbersArgument& numbers) const {
      numbers.in_memory = memory.numbers;
      if (memory.numbers == nullptr) numbers.own = NumbersOf(arguments.step);
    }
    uintptr_t AddressOf(uintptr_t planned) const;
  };

  LaunchPlan(KernelSteps plan, const KernelArguments& arguments);

  KernelSteps plan_;
  size_t input_count_, output_count_;
  // The places of pieces, if steps depend on them.
  std::vector<TensorArgument> inputs_, outputs_;
  uint64_t operator_key_;
};

// The plans of all launches of a kernel: one, unless steps depend on where a launch's pieces lie.
// Used by several threads.
class LaunchPlans {
 public:
  static absl::StatusOr<std::unique_ptr<LaunchPlans>> Make(const KernelSignature& signature,
                                                           const KernelOptions& options);

  // The steps for the signature's whole tensors.
  const KernelSteps& whole() const { return whole_.steps(); }
  // The plan that suits the arguments, made at the first launch that asks for it; as long as this
  // object. Errors: PlanKernel's.
  absl::StatusOr<const LaunchPlan*> Of(const KernelArguments& arguments);

 private:
  LaunchPlans(LaunchPlan whole, const KernelSignature& signature, const KernelOptions& options)
      : whole_(std::move(whole)), signature_(signature), options_(options) {}

  const LaunchPlan whole_;
  const KernelSignature signature_;
  const KernelOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<LaunchPlan>> placed_;  // of launches that `whole_` does not suit
};

}  // namespace partita
