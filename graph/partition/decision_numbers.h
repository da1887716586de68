#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/partition/fragment_classes.h"

namespace partita {

// Numbers of what strategies choose, one for each decision (FragmentDecisions), and the weights and
// tensors that have to be looked at again: those that follow from a decision whose number has changed
// since.
class DecisionNumbers {
 public:
  // Everything has to be looked at; no decision has a number yet.
  DecisionNumbers(const FragmentDecisions& decisions, size_t count);

  int32_t operator[](int32_t decision) const { return numbers_[static_cast<size_t>(decision)]; }
  void Set(size_t decision, int32_t number) {
    if (numbers_[decision] == number) return;
    numbers_[decision] = number;
    MarkFollowers(decision);
  }

  bool IsOpenWeight(size_t weight) const { return is_open_weight_[weight] != 0; }
  void CloseWeight(size_t weight) { is_open_weight_[weight] = 0; }

  void OpenAllTensors();
  // The tensors that have to be looked at, ascending; until the next change.
  std::span<const int32_t> OpenTensors();
  // Closes those of the open ones that are not to stay so.
  template <class StaysOpen>
  void CloseTensors(StaysOpen&& stays_open) {
    std::erase_if(open_tensors_, [&](int32_t tensor) {
      if (stays_open(tensor)) return false;
      is_open_tensor_[static_cast<size_t>(tensor)] = 0;
      return true;
    });
  }

 private:
  // What follows from a decision.
  struct Followers {
    std::vector<int32_t> weights, tensors;
  };

  void MarkFollowers(size_t decision);
  void OpenTensor(int32_t tensor);

  std::vector<int32_t> numbers_;      // indexed by decision; 0: none yet
  std::vector<Followers> followers_;  // indexed by decision
  std::vector<char> is_open_weight_;  // indexed by weight
  std::vector<char> is_open_tensor_;  // indexed by TensorId
  std::vector<int32_t> open_tensors_;
};

}  // namespace partita
