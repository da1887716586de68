#include "graph/model/pending_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/memory.h"
#include "graph/support/status_macros.h"

namespace partita {

std::shared_ptr<const std::vector<float>> PendingValues::Add(int64_t elements, Reader read) {
  auto values = std::make_shared<std::vector<float>>();
  items_.push_back({values, std::move(read)});
  // Elements are at most kMaxElements (graph/model/model_limits.h); the sum of many stays the
  // largest.
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, int64_t{sizeof(float)}, &bytes) ||
      __builtin_add_overflow(bytes_, bytes, &bytes_)) {
    bytes_ = INT64_MAX;
  }
  return values;
}

absl::Status PendingValues::ReadAll(absl::string_view model) const {
  RETURN_IF_ERROR(CheckMemory(bytes_, absl::StrCat("the weights of '", model, "'")));
  for (const Item& item : items_) RETURN_IF_ERROR(item.read(*item.values));
  return absl::OkStatus();
}

absl::Status AbsentValuesError(const std::string& model, int weights,
                               const std::string& side_file) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", model, "' has no values for ", weights, " of its weights: side file '", side_file,
      "' is absent. Put it where the model is; or start from a checkpoint (run --load or "
      "--resume); "
      "or, for initial values, write a model without weights (partita import ",
      model, " -o NAME.textproto) and name that by --model"));
}

}  // namespace partita
