#include "graph/support/known_names.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace partita {
namespace {

constexpr size_t kMostNames = 3;
// Letters from which on a name's beginning tells what is meant.
constexpr size_t kBeginning = 3;

std::string Folded(absl::string_view name) {
  std::string folded = absl::AsciiStrToLower(name);
  std::replace(folded.begin(), folded.end(), '-', '_');
  return folded;
}

// Letters to insert, to take away, to change, or to swap with the next, until one is the other: the
// optimal string alignment distance.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + changed});
      const bool swaps = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swaps) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// Those that begin with the wanted letters, folded; none where too many do.
std::vector<std::string> NamesFrom(absl::string_view wanted, std::span<const std::string> known) {
  std::vector<std::string> names;
  const size_t letters = wanted.size() - std::min(wanted.find_first_not_of('_'), wanted.size());
  if (letters < kBeginning) return names;
  for (const std::string& one : known) {
    if (absl::StartsWith(Folded(one), wanted)) names.push_back(one);
  }
  if (names.size() > kMostNames) names.clear();
  return names;
}

}  // namespace

std::vector<std::string> NearestNames(absl::string_view name, std::span<const std::string> known) {
  constexpr size_t kLongest = 64;  // names that are typed are shorter
  std::vector<std::string> nearest;
  if (name.empty() || name.size() > kLongest) return nearest;
  const std::string wanted = Folded(name);
  size_t least = std::max<size_t>(1, wanted.size() / 3);
  for (const std::string& one : known) {
    const size_t distance = Distance(wanted, Folded(one));
    if (distance > least || distance >= one.size()) continue;
    if (distance < least) nearest.clear();
    least = distance;
    if (nearest.size() < kMostNames) nearest.push_back(one);
  }
  if (!nearest.empty() && least <= 1) return nearest;
  std::vector<std::string> begun = NamesFrom(wanted, known);
  return begun.empty() ? nearest : begun;
}

std::string DidYouMean(absl::string_view name, std::span<const std::string> known) {
  const std::vector<std::string> nearest = NearestNames(name, known);
  if (nearest.empty()) return "";
  return absl::StrCat("; did you mean '", absl::StrJoin(nearest, "' or '"), "'?");
}

std::string UnknownNameText(absl::string_view what, absl::string_view name,
                            std::span<const std::string> known) {
  const std::string meant = DidYouMean(name, known);
  return absl::StrCat("unknown ", what, " '", name, "'", meant,
                      meant.empty() ? "; known are: " : " Known are: ", absl::StrJoin(known, ", "));
}

absl::Status UnknownNameError(absl::string_view what, absl::string_view name,
                              std::span<const std::string> known) {
  return absl::NotFoundError(UnknownNameText(what, name, known));
}

}  // namespace partita
