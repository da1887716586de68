#include "graph/support/option.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "graph/support/known_names.h"

namespace partita {
namespace {

std::string Wanted(absl::string_view what, absl::string_view found) {
  return absl::StrCat("wanted is ", what, ", not '", found, "'");
}

// The same of numbers: one with a unit, or in another form, shows what is wrong with it.
std::string WantedNumber(absl::string_view what, absl::string_view found) {
  const bool begins = !found.empty() && absl::ascii_isdigit(static_cast<unsigned char>(found[0]));
  const bool has_more = begins && std::any_of(found.begin(), found.end(), [](char c) {
                          return c == ',' || absl::ascii_isalpha(static_cast<unsigned char>(c));
                        });
  return absl::StrCat(Wanted(what, found),
                      has_more ? "; digits alone, without a unit or a comma" : "");
}

// A check of numbers that `fits` a range, which `wanted` describes.
OptionCheck Number(std::function<bool(double)> fits, std::string wanted,
                   std::vector<std::string> examples) {
  const auto fault = [fits = std::move(fits),
                      wanted = std::move(wanted)](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = !text.empty() && *end == '\0' && std::isfinite(value);
    return is_number && fits(value) ? "" : WantedNumber(wanted, text);
  };
  return {fault, std::move(examples)};
}

}  // namespace

OptionCheck WholeNumber(int64_t low, int64_t high) {
  const bool open = high == std::numeric_limits<int64_t>::max();
  const std::string wanted = open ? absl::StrCat("a whole number from ", low, " on")
                                  : absl::StrCat("a whole number from ", low, " to ", high);
  const auto fault = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    errno = 0;
    const int64_t value = std::strtoll(text.c_str(), &end, 10);
    const bool is_number = !text.empty() && *end == '\0' && errno == 0;
    return is_number && value >= low && value <= high ? "" : WantedNumber(wanted, text);
  };
  return {fault, {absl::StrCat(low), absl::StrCat(low < high ? low + 1 : low)}};
}

OptionCheck Seed() {
  const auto fault = [](const std::string& text) -> std::string {
    char* end = nullptr;
    errno = 0;
    std::strtoull(text.c_str(), &end, 10);
    const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
    if (!text.empty() && digits && errno == 0) return "";
    return Wanted("a whole number from 0 to 18446744073709551615", text);
  };
  return {fault, {"7", "18446744073709551615"}};
}

OptionCheck NumberFrom(double low) {
  return Number([low](double value) { return value >= low; },
                absl::StrCat("a number from ", low, " on"),
                {absl::StrCat(low), absl::StrCat(low + 0.1)});
}

OptionCheck NumberAbove(double low) {
  return Number([low](double value) { return value > low; }, absl::StrCat("a number above ", low),
                {absl::StrCat(low + 0.1), absl::StrCat(low + 7)});
}

OptionCheck Fraction() {
  return Number([](double value) { return value >= 0 && value < 1; },
                "a number from 0 on and below 1", {"0", "0.3"});
}

OptionCheck ByteCount() {
  const auto fault = [](const std::string& text) -> std::string {
    Bytes bytes;
    if (ReadOption(text, bytes) && bytes > Bytes(0)) return "";
    return Wanted("a number of bytes above 0, such as 800MB or 12GiB", text);
  };
  return {fault, {"800000000", "12884901888"}};
}

OptionCheck NameOf(const std::string& what, std::vector<std::string> names) {
  const auto fault = [what, names](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return "";
    return UnknownNameText(what, text, names);
  };
  return {fault, names, names};
}

std::string OptionText(Bytes value) { return absl::StrCat(value.value()); }

bool ReadOption(absl::string_view text, Bytes& value) {
  static constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"kB", 1e3},
      {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"B", 1},        {"", 1}};
  for (const auto& [unit, bytes] : kUnits) {
    absl::string_view number = text;
    // As it is, or all letters large or small; "b" and "Gb" may be bits.
    const bool is_spelt = absl::EndsWith(text, unit) ||
                          (unit.size() > 1 && (absl::EndsWith(text, absl::AsciiStrToLower(unit)) ||
                                               absl::EndsWith(text, absl::AsciiStrToUpper(unit))));
    if (!is_spelt) continue;
    number.remove_suffix(unit.size());
    double count = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), count);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size()) return false;
    if (!std::isfinite(count) || count < 0 || count * bytes > 1e18) return false;
    value = Bytes(static_cast<int64_t>(count * bytes));
    return true;
  }
  return false;
}

}  // namespace partita
