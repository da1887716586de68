#include "graph/model/model_attributes.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/model/model_limits.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

void Write(bool value, proto::ModelAttribute& to) { to.set_flag(value); }
void Write(int64_t value, proto::ModelAttribute& to) { to.set_integer(value); }
void Write(double value, proto::ModelAttribute& to) { to.set_real(value); }
void Write(const std::string& value, proto::ModelAttribute& to) { to.set_text(value); }
void Write(const std::vector<int64_t>& values, proto::ModelAttribute& to) {
  proto::ModelIntegers& list = *to.mutable_integers();
  for (int64_t value : values) list.add_value(value);
}

// False if the value has another type or is out of range.
bool InRange(int64_t value) { return value >= -kMaxExtent && value <= kMaxExtent; }
bool Read(const proto::ModelAttribute& from, bool& value) {
  value = from.flag();
  return from.value_case() == proto::ModelAttribute::kFlag;
}
bool Read(const proto::ModelAttribute& from, int64_t& value) {
  value = from.integer();
  // Counts of elements go beyond extents.
  return from.value_case() == proto::ModelAttribute::kInteger && value >= -kMaxElements &&
         value <= kMaxElements;
}
bool Read(const proto::ModelAttribute& from, double& value) {
  value = from.real();
  return from.value_case() == proto::ModelAttribute::kReal && std::isfinite(value);
}
bool Read(const proto::ModelAttribute& from, std::string& value) {
  value = from.text();
  return from.value_case() == proto::ModelAttribute::kText;
}
bool Read(const proto::ModelAttribute& from, std::vector<int64_t>& values) {
  values.assign(from.integers().value().begin(), from.integers().value().end());
  return from.value_case() == proto::ModelAttribute::kIntegers && values.size() <= 64 &&
         std::all_of(values.begin(), values.end(), InRange);
}

}  // namespace

void WriteAttrs(const OpAttrs& attrs, proto::ModelOperator& to) {
  to.set_kind(std::string(NameOf(attrs)));
  std::visit(
      [&to](const auto& row) {
        using Row = std::decay_t<decltype(row)>;
        Row::VisitFields(row, [&to](absl::string_view name, const auto& value) {
          proto::ModelAttribute& attribute = *to.add_attribute();
          attribute.set_name(std::string(name));
          Write(value, attribute);
        });
      },
      attrs);
}

// Fields that are not given keep their defaults; names that are no field are an error.
absl::StatusOr<OpAttrs> ReadAttrs(const proto::ModelOperator& from) {
  ASSIGN_OR_RETURN(OpAttrs attrs, OpAttrsNamed(from.kind()));
  absl::flat_hash_map<std::string, const proto::ModelAttribute*> given;
  for (const proto::ModelAttribute& attribute : from.attribute()) {
    if (!given.try_emplace(attribute.name(), &attribute).second) {
      return InvalidInput("attribute '", attribute.name(), "' is given twice");
    }
  }
  std::string bad;
  std::visit(
      [&](auto& row) {
        using Row = std::decay_t<decltype(row)>;
        Row::VisitFields(row, [&](absl::string_view name, auto& value) {
          const auto found = given.find(name);
          if (found == given.end()) return;
          if (!Read(*found->second, value)) bad = std::string(name);
          given.erase(found);
        });
      },
      attrs);
  if (!bad.empty()) {
    return InvalidInput("attribute '", bad, "' has the wrong type or is out of range");
  }
  if (!given.empty()) {
    return InvalidInput(from.kind(), " has no attribute '", given.begin()->first, "'");
  }
  return attrs;
}

}  // namespace partita
