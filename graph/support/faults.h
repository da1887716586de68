#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace partita {

// Faults of an input, all of them, so that whoever wrote it mends them in one go.
class Faults {
 public:
  void Add(std::string fault) { texts_.push_back(std::move(fault)); }
  // Nothing where it is OK, each of its faults where it was made by ToStatus.
  void Add(const absl::Status& status);

  bool empty() const { return texts_.empty(); }
  // OK without a fault, otherwise InvalidArgument: one as it is, several counted and each on a line
  // of its own, kMostNamed at most.
  absl::Status ToStatus() const;

  static constexpr size_t kMostNamed = 20;

 private:
  std::vector<std::string> texts_;
};

}  // namespace partita
