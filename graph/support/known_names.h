#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace partita {

// Known names that were probably meant by another one, in their order, three at most:
// what is one letter away, or else begins with all that was typed, or else is nearest by edit
// distance; none where all are far. Letters count alike whether large or small, and '-' as '_'.
std::vector<std::string> NearestNames(absl::string_view name, std::span<const std::string> known);

// "; did you mean 'alexnet'?", or empty.
std::string DidYouMean(absl::string_view name, std::span<const std::string> known);

// "unknown search 'anealing'; did you mean 'annealing'? Known are: auto, annealing"
std::string UnknownNameText(absl::string_view what, absl::string_view name,
                            std::span<const std::string> known);
// The same as NotFound.
absl::Status UnknownNameError(absl::string_view what, absl::string_view name,
                              std::span<const std::string> known);

}  // namespace partita
