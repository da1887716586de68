#include "graph/collective/algorithm_name.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int kMostRanks = 1 << 16;  // of one setting

absl::StatusOr<int> Number(absl::string_view text, int least) {
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= least) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a number from ", least, " on"));
}

absl::StatusOr<std::vector<int>> ParseNodes(absl::string_view text) {
  std::vector<int> nodes;
  for (const absl::string_view run : absl::StrSplit(text, '+')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(run, absl::MaxSplits('*', 1));
    ASSIGN_OR_RETURN(const int node, Number(parts.first, 0));
    int count = 1;
    if (!parts.second.empty()) {
      ASSIGN_OR_RETURN(count, Number(parts.second, 1));
    }
    if (count > kMostRanks - static_cast<int>(nodes.size())) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMostRanks, " ranks"));
    }
    nodes.insert(nodes.end(), static_cast<size_t>(count), node);
  }
  return nodes;
}

absl::Status Set(absl::string_view setting, absl::string_view value, ScheduleOptions& options) {
  if (setting == "colors") {
    ASSIGN_OR_RETURN(options.colors, Number(value, 1));
    return absl::OkStatus();
  }
  if (setting == "segments") {
    ASSIGN_OR_RETURN(options.segments, Number(value, 1));
    return absl::OkStatus();
  }
  if (setting == "nodes") {
    ASSIGN_OR_RETURN(options.nodes, ParseNodes(value));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no setting '", setting, "'; there are colors, segments and nodes"));
}

absl::Status SetAll(absl::string_view settings, ScheduleOptions& options) {
  for (const absl::string_view item : absl::StrSplit(settings, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    RETURN_IF_ERROR(Set(parts.first, parts.second, options));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NamedAlgorithm> ParseAlgorithm(absl::string_view name,
                                              const ScheduleOptions& options) {
  const size_t open = name.find('(');
  NamedAlgorithm named{std::string(name.substr(0, open)), options};
  if (open == absl::string_view::npos) return named;
  absl::string_view settings = name.substr(open + 1);
  absl::Status status = absl::InvalidArgumentError("its settings do not end with ')'");
  if (absl::ConsumeSuffix(&settings, ")")) status = SetAll(settings, named.options);
  if (status.ok()) return named;
  return absl::InvalidArgumentError(
      absl::StrCat("collective algorithm \"", name, "\": ", status.message()));
}

std::string NodesText(std::span<const int> nodes) {
  std::string text;
  std::map<int, size_t> numbers;
  for (size_t first = 0, last = 0; first < nodes.size(); first = last) {
    while (last < nodes.size() && nodes[last] == nodes[first]) ++last;
    const size_t number = numbers.try_emplace(nodes[first], numbers.size()).first->second;
    absl::StrAppend(&text, first == 0 ? "" : "+", number);
    if (last - first > 1) absl::StrAppend(&text, "*", last - first);
  }
  return text;
}

size_t CountNodes(std::span<const int> nodes) {
  std::map<int, int> seen;
  for (const int node : nodes) ++seen[node];
  return seen.size();
}

}  // namespace partita
