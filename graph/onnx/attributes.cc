#include "graph/onnx/attributes.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace partita::onnx {

Attributes::Attributes(const NodeProto& node) : node_(node) {
  absl::flat_hash_set<std::string> names;
  for (const AttributeProto& attribute : node.attribute()) {
    if (!names.insert(attribute.name()).second) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat("attribute '", attribute.name(), "' is given twice")));
    }
    if (attribute.has_ref_attr_name()) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat("attribute '", attribute.name(), "' refers to a function's attribute")));
    }
  }
}

const AttributeProto* Attributes::Find(absl::string_view name) const {
  for (const AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

const AttributeProto* Attributes::FindTyped(absl::string_view name, Type type) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return nullptr;
  // Files of the first ONNX versions leave the type out.
  if (attribute->type() == 0 || attribute->type() == type) return attribute;
  status_.Update(absl::InvalidArgumentError(
      absl::StrCat("attribute '", std::string(name), "' has type ", attribute->type(),
                   "; wanted type ", static_cast<int>(type))));
  return nullptr;
}

int64_t Attributes::Limited(absl::string_view name, int64_t value, int64_t lo, int64_t hi) {
  if (value < lo || value > hi) {
    status_.Update(absl::InvalidArgumentError(absl::StrCat(
        "attribute '", std::string(name), "' has value ", value, "; valid are ", lo, " to ", hi)));
  }
  return std::clamp(value, lo, hi);
}

int64_t Attributes::Int(absl::string_view name, int64_t otherwise, int64_t lo, int64_t hi) {
  const AttributeProto* attribute = FindTyped(name, kInt);
  return attribute == nullptr ? otherwise : Limited(name, attribute->i(), lo, hi);
}

std::vector<int64_t> Attributes::Ints(absl::string_view name, std::vector<int64_t> otherwise,
                                      int64_t lo, int64_t hi) {
  const AttributeProto* attribute = FindTyped(name, kInts);
  if (attribute == nullptr) return otherwise;
  std::vector<int64_t> values;
  for (int64_t value : attribute->ints()) values.push_back(Limited(name, value, lo, hi));
  return values;
}

double Attributes::Float(absl::string_view name, double otherwise) {
  const AttributeProto* attribute = FindTyped(name, kFloat);
  if (attribute == nullptr) return otherwise;
  if (!std::isfinite(attribute->f())) {
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat("attribute '", std::string(name), "' is not a finite number")));
    return otherwise;
  }
  // The decimal that the exporter had, 1e-05 rather than 9.99999975e-06, if it is the same float.
  double decimal = 0;
  const bool same = absl::SimpleAtod(absl::StrCat(attribute->f()), &decimal) &&
                    static_cast<float>(decimal) == attribute->f();
  return same ? decimal : attribute->f();
}

std::vector<float> Attributes::Floats(absl::string_view name) {
  const AttributeProto* attribute = FindTyped(name, kFloats);
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> Attributes::Strings(absl::string_view name) {
  const AttributeProto* attribute = FindTyped(name, kStrings);
  if (attribute == nullptr) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

std::string Attributes::String(absl::string_view name, const std::string& otherwise) {
  const AttributeProto* attribute = FindTyped(name, kString);
  return attribute == nullptr ? otherwise : attribute->s();
}

const TensorProto* Attributes::Tensor(absl::string_view name) {
  const AttributeProto* attribute = FindTyped(name, kTensor);
  return attribute == nullptr ? nullptr : &attribute->t();
}

}  // namespace partita::onnx
