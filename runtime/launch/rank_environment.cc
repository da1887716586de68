#include "runtime/launch/rank_environment.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int kMostRanks = 1 << 16;
constexpr int kMostPort = 65535;
constexpr size_t kLongestName = 253;  // of a host, as DNS has it
constexpr size_t kShown = 60;         // characters of a value in a message

struct Range {
  int least = 0, most = 0;
};

// A value as messages show it: what is not printable is not printed.
std::string Shown(absl::string_view value) {
  std::string text(value.substr(0, kShown));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isprint(c) == 0; }, '?');
  return absl::StrCat("'", text, value.size() > kShown ? "...'" : "'");
}

class Reader {
 public:
  explicit Reader(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  bool Has(const char* name) const { return lookup_(name) != nullptr; }

  // Nothing if the variable is absent.
  absl::StatusOr<std::optional<int>> Number(const char* name, Range range) const {
    const char* value = lookup_(name);
    if (value == nullptr) return std::nullopt;
    int number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < range.least || number > range.most) {
      return UsageError(absl::StrCat("the environment has ", name, "=", Shown(value),
                                     "; wanted: a whole number from ", range.least, " to ",
                                     range.most));
    }
    return number;
  }

  struct Place {
    int rank = 0, size = 1;
  };
  // A rank and the number of ranks. Nothing if both are absent.
  absl::StatusOr<std::optional<Place>> PlaceIn(const char* rank_name, const char* size_name) const {
    if (!Has(rank_name) && !Has(size_name)) return std::nullopt;
    for (const auto& [there, absent] :
         {std::pair(rank_name, size_name), std::pair(size_name, rank_name)}) {
      if (Has(absent)) continue;
      return UsageError(absl::StrCat(
          "the environment has ", there, "=", Shown(lookup_(there)), " and no ", absent,
          "; wanted: both, as a launcher sets them, or none, to run in one process"));
    }
    ASSIGN_OR_RETURN(const auto size, Number(size_name, {1, kMostRanks}));
    ASSIGN_OR_RETURN(const auto rank, Number(rank_name, {0, *size - 1}));
    return Place{*rank, *size};
  }

  absl::Status ReadAddress(std::string& address) const {
    const char* value = lookup_("MASTER_ADDR");
    if (value == nullptr) return absl::OkStatus();
    address = value;
    const bool plain = std::all_of(address.begin(), address.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
    });
    if (plain && !address.empty() && address.size() <= kLongestName) return absl::OkStatus();
    return UsageError(absl::StrCat("the environment has MASTER_ADDR=", Shown(value),
                                   "; wanted: a host's name or an IPv4 address"));
  }

  // torchrun itself listens at MASTER_PORT where it says so: then rank 0 takes the port after it.
  absl::Status ReadPort(int& port) const {
    const char* taken = lookup_("TORCHELASTIC_USE_AGENT_STORE");
    const bool next = taken != nullptr && absl::string_view(taken) == "True";
    ASSIGN_OR_RETURN(const auto said, Number("MASTER_PORT", {1, next ? kMostPort - 1 : kMostPort}));
    port = said.value_or(port) + (next ? 1 : 0);
    return absl::OkStatus();
  }

 private:
  const EnvironmentLookup& lookup_;
};

}  // namespace

absl::StatusOr<std::optional<RankEnvironment>> ReadRankEnvironment(
    const EnvironmentLookup& lookup) {
  const Reader reader(lookup);
  using Launcher = RankEnvironment::Launcher;
  constexpr const char* kMpiNames[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                          {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, size] : kMpiNames) {
    ASSIGN_OR_RETURN(const auto place, reader.PlaceIn(rank, size));
    if (!place.has_value() || place->size == 1) continue;
    return RankEnvironment{
        .launcher = Launcher::kMpi, .rank = place->rank, .size = place->size, .address = ""};
  }
  ASSIGN_OR_RETURN(const auto place, reader.PlaceIn("RANK", "WORLD_SIZE"));
  if (!place.has_value()) return std::nullopt;
  RankEnvironment found{.rank = place->rank, .size = place->size};
  RETURN_IF_ERROR(reader.ReadAddress(found.address));
  RETURN_IF_ERROR(reader.ReadPort(found.port));
  ASSIGN_OR_RETURN(const auto local, reader.Number("LOCAL_WORLD_SIZE", {1, found.size}));
  found.local_size = local.value_or(0);
  if (found.size == 1) return std::nullopt;
  return found;
}

}  // namespace partita
