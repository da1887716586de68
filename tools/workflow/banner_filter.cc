#include "tools/workflow/banner_filter.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace partita {
namespace {

constexpr size_t kLeastDashes = 60;      // mpirun writes 74
constexpr size_t kLongestBanner = 8192;  // bytes; what goes on for longer is something else

constexpr absl::string_view kBanners[] = {
    "Primary job  terminated normally, but",
    "mpirun detected that one or more processes exited with non-zero status",
    "mpirun noticed that process rank",
    "MPI_ABORT was invoked on rank",
    "A process or daemon was unable to complete a TCP connection",
    "An MPI communication peer process has unexpectedly disconnected",
};
// Of single lines, after "[host:process] ".
constexpr absl::string_view kHints[] = {
    "more process has sent help message",
    "more processes have sent help message",
    "Set MCA parameter \"orte_base_help_aggregate\" to 0",
};

bool IsDashes(absl::string_view line) {
  line = absl::StripSuffix(line, "\n");
  return line.size() >= kLeastDashes && line.find_first_not_of('-') == absl::string_view::npos;
}

bool IsHint(absl::string_view line) {
  return absl::StartsWith(line, "[") &&
         std::any_of(std::begin(kHints), std::end(kHints),
                     [&](absl::string_view hint) { return absl::StrContains(line, hint); });
}

// The banner has its first line of dashes.
bool IsUnwanted(absl::string_view banner) {
  const absl::string_view said = banner.substr(banner.find('\n') + 1);
  return std::any_of(std::begin(kBanners), std::end(kBanners),
                     [&](absl::string_view known) { return absl::StartsWith(said, known); });
}

}  // namespace

std::string BannerFilter::Pass(absl::string_view more) {
  std::string shown;
  while (!more.empty()) {
    const size_t end = std::min(more.find('\n'), more.size() - 1) + 1;
    line_.append(more.data(), end);
    more.remove_prefix(end);
    if (line_.back() != '\n') break;
    Take(line_, shown);
    line_.clear();
  }
  // A line of progress need not end to be seen.
  if (banner_.empty() && !line_.empty() && line_[0] != '-' && line_[0] != '[') {
    absl::StrAppend(&shown, line_);
    line_.clear();
  }
  return shown;
}

void BannerFilter::Take(absl::string_view line, std::string& shown) {
  if (banner_.empty()) {
    if (IsDashes(line)) {
      absl::StrAppend(&banner_, line);
    } else if (!IsHint(line)) {
      absl::StrAppend(&shown, line);
    }
    return;
  }
  absl::StrAppend(&banner_, line);
  const bool ended = IsDashes(line);
  if (!ended && banner_.size() < kLongestBanner) return;
  if (!ended || !IsUnwanted(banner_)) absl::StrAppend(&shown, banner_);
  banner_.clear();
}

std::string BannerFilter::Rest() {
  std::string rest;
  if (!line_.empty()) {
    const std::string line = std::move(line_);
    line_.clear();
    Take(line, rest);
  }
  if (!IsUnwanted(banner_)) absl::StrAppend(&rest, banner_);
  banner_.clear();
  return rest;
}

}  // namespace partita
