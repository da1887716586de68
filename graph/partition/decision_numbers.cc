#include "graph/partition/decision_numbers.h"

#include <algorithm>

namespace partita {

DecisionNumbers::DecisionNumbers(const FragmentDecisions& decisions, size_t count)
    : numbers_(count, 0),
      followers_(count),
      is_open_weight_(decisions.of_layout.size(), 1),
      is_open_tensor_(decisions.of_tensor.size(), 0) {
  const auto add = [this](const std::vector<std::vector<int32_t>>& lists,
                          std::vector<int32_t> Followers::* kind) {
    for (size_t k = 0; k < lists.size(); ++k) {
      for (int32_t decision : lists[k]) {
        (followers_[static_cast<size_t>(decision)].*kind).push_back(static_cast<int32_t>(k));
      }
    }
  };
  add(decisions.of_layout, &Followers::weights);
  add(decisions.of_tensor, &Followers::tensors);
  OpenAllTensors();
}

void DecisionNumbers::MarkFollowers(size_t decision) {
  for (int32_t weight : followers_[decision].weights) {
    is_open_weight_[static_cast<size_t>(weight)] = 1;
  }
  for (int32_t tensor : followers_[decision].tensors) OpenTensor(tensor);
}

void DecisionNumbers::OpenTensor(int32_t tensor) {
  if (is_open_tensor_[static_cast<size_t>(tensor)] != 0) return;
  is_open_tensor_[static_cast<size_t>(tensor)] = 1;
  open_tensors_.push_back(tensor);
}

void DecisionNumbers::OpenAllTensors() {
  for (size_t t = 0; t < is_open_tensor_.size(); ++t) OpenTensor(static_cast<int32_t>(t));
}

std::span<const int32_t> DecisionNumbers::OpenTensors() {
  std::sort(open_tensors_.begin(), open_tensors_.end());
  return open_tensors_;
}

}  // namespace partita
