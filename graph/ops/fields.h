#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "graph/support/option.h"

// Operator attributes are plain structs that list their fields once:
//
//   template <class Self, class Visitor>
//   static void VisitFields(Self& self, Visitor&& visit) { visit("stride", self.stride); ... }
//
// Hashing, text and the file format follow from that list. A field is bool, int64_t, double,
// std::string or std::vector<int64_t>.

namespace partita {

template <class A>
std::string FieldsText(const A& attrs) {
  std::string text;
  A::VisitFields(attrs, [&text](absl::string_view name, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=");
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      absl::StrAppend(&text, "[", absl::StrJoin(value, ","), "]");
    } else if constexpr (std::is_same_v<T, bool>) {
      absl::StrAppend(&text, value ? "true" : "false");
    } else if constexpr (std::is_same_v<T, double>) {
      absl::StrAppend(&text, OptionText(value));
    } else {
      absl::StrAppend(&text, value);
    }
  });
  return text;
}

template <class H, class A>
H HashFields(H h, const A& attrs) {
  A::VisitFields(
      attrs, [&h](absl::string_view, const auto& value) { h = H::combine(std::move(h), value); });
  return h;
}

}  // namespace partita
