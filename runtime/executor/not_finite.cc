#include "runtime/executor/not_finite.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {

void NotFinite::Add(int64_t place, std::string what) {
  const std::lock_guard lock(mutex_);
  if (place_ >= 0 && place_ <= place) return;
  place_ = place;
  what_ = std::move(what);
}

absl::Status NotFinite::Take(MessagePort* port) {
  std::string own;
  {
    const std::lock_guard lock(mutex_);
    if (place_ >= 0) own = absl::StrCat(place_, "\n", what_);
    place_ = -1;
  }
  std::vector<std::string> all = {own};
  if (port != nullptr) {
    ASSIGN_OR_RETURN(all, GatherTexts(*port, own));
  }
  int64_t first = -1;
  absl::Status status;
  for (const std::string& text : all) {
    const std::pair<std::string, std::string> found =
        absl::StrSplit(text, absl::MaxSplits('\n', 1));
    int64_t place = -1;
    if (!absl::SimpleAtoi(found.first, &place) || (first >= 0 && first <= place)) continue;
    first = place;
    status = NotFiniteError(found.second);
  }
  return status;
}

}  // namespace partita
