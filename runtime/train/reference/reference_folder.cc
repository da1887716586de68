#include "runtime/train/reference/reference_folder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "absl/strings/str_cat.h"
#include "graph/model/model_source.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/train/data/safetensors.h"

namespace partita {
namespace {

using Json = nlohmann::json;

std::string KindOf(const std::string& name) { return name.substr(0, name.find('/')); }

absl::StatusOr<double> Number(const Json& object, const std::string& key, const std::string& file) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": \"", key, "\" should be a number"));
  }
  const double value = found->get<double>();
  if (std::isfinite(value)) return value;
  return absl::InvalidArgumentError(absl::StrCat(file, ": \"", key, "\" is not finite"));
}

absl::StatusOr<Json> Member(const Json& object, const std::string& key, const std::string& file) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_object()) return *found;
  return absl::InvalidArgumentError(absl::StrCat(file, ": \"", key, "\" should be an object"));
}

absl::Status ReadMeta(const std::string& file, ReferenceFolder& folder) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file, int64_t{1} << 20));
  const Json meta = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!meta.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is not a JSON object"));
  }
  ASSIGN_OR_RETURN(const Json optimizer, Member(meta, "optimizer", file));
  const auto type = optimizer.find("type");
  if (type == optimizer.end() || !type->is_string() || type->get<std::string>() != "SGD") {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": optimizer \"type\" should be \"SGD\", the only one that is known"));
  }
  ASSIGN_OR_RETURN(folder.learning_rate, Number(optimizer, "lr", file));
  ASSIGN_OR_RETURN(folder.momentum, Number(optimizer, "momentum", file));
  ASSIGN_OR_RETURN(folder.weight_decay, Number(optimizer, "weight_decay", file));
  const auto model = meta.find("model");
  if (model != meta.end()) {
    folder.model = model->is_string() ? model->get<std::string>() : "";
    if (folder.model.empty() || IsModelFile(folder.model)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": \"model\" should be the name of a model of the zoo"));
    }
  }
  const auto nesterov = optimizer.find("nesterov");
  folder.nesterov = nesterov != optimizer.end() && nesterov->is_boolean() && nesterov->get<bool>();
  ASSIGN_OR_RETURN(const Json tolerances, Member(meta, "suggested_tolerance", file));
  for (const auto& item : tolerances.items()) {
    ASSIGN_OR_RETURN(folder.tolerance[item.key()], Number(tolerances, item.key(), file));
  }
  return absl::OkStatus();
}

// Cuts [steps, ...] into steps.
template <class To, class From>
std::vector<std::vector<To>> CutIntoSteps(const std::vector<From>& all, int64_t steps) {
  const auto each = static_cast<std::ptrdiff_t>(all.size()) / steps;
  std::vector<std::vector<To>> cut;
  for (std::ptrdiff_t s = 0; s < steps; ++s) {
    cut.emplace_back(all.begin() + s * each, all.begin() + (s + 1) * each);
  }
  return cut;
}

absl::Status ReadBatches(const std::string& path, ReferenceFolder& folder) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  ASSIGN_OR_RETURN(const SafetensorsEntry* x, file.Find("x"));
  ASSIGN_OR_RETURN(const SafetensorsEntry* y, file.Find("y"));
  if (x->shape.size() < 2 || y->shape.empty() || x->shape[0] != y->shape[0] || x->shape[0] < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": x and y should be [steps, batch, ...] with at least one step"));
  }
  ASSIGN_OR_RETURN(const std::vector<float> samples, file.Floats("x"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> labels, file.Integers("y"));
  for (int64_t label : labels) {
    if (label < 0 || label > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": y has a label ", label));
    }
  }
  folder.x = CutIntoSteps<float>(samples, x->shape[0]);
  folder.labels = CutIntoSteps<int32_t>(labels, x->shape[0]);
  folder.batch_shape.assign(x->shape.begin() + 1, x->shape.end());
  return absl::OkStatus();
}

absl::Status ReadExpected(const std::string& path, ReferenceFolder& folder) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  for (const auto& [name, entry] : file.tensors()) {
    if (name == "loss" && file.Contains("loss_f64")) continue;
    std::vector<double>& values = folder.expected[name == "loss_f64" ? "loss" : name];
    if (entry.dtype == "F64") {
      ASSIGN_OR_RETURN(const std::span<const double> view, file.View<double>(name));
      values.assign(view.begin(), view.end());
    } else {
      ASSIGN_OR_RETURN(const std::vector<float> floats, file.Floats(name));
      values.assign(floats.begin(), floats.end());
    }
  }
  return file.Check();
}

double Largest(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Adds one tensor to the comparison; `allowed` is the largest error that it may have.
void CompareTensor(const std::string& name, const std::vector<double>& want,
                   const std::vector<double>* got, double allowed, ReferenceComparison& result) {
  ++result.tensors;
  std::string difference;
  double share = 0;
  if (got == nullptr || got->size() != want.size()) {
    difference = absl::StrCat(name, ": wanted ", want.size(), " elements, found ",
                              got == nullptr ? 0 : got->size());
    share = std::numeric_limits<double>::infinity();
  } else {
    for (size_t i = 0; i < want.size(); ++i) {
      if (!std::isfinite(want[i]) && difference.empty()) {
        difference = absl::StrCat(name, " element ", i, " is ", want[i],
                                  " in the reference itself, with which nothing can be compared");
        share = std::numeric_limits<double>::infinity();
        break;
      }
      const double error = std::abs((*got)[i] - want[i]);
      const bool wrong = !(error <= allowed);  // NaN is wrong
      if (wrong && difference.empty()) {
        difference = absl::StrCat(name, " element ", i, ": found ", (*got)[i], ", wanted ", want[i],
                                  " +- ", allowed);
      }
      const double ratio =
          std::isnan(error) ? std::numeric_limits<double>::infinity() : error / allowed;
      share = std::max(share, ratio);
      result.max_abs_error = std::max(result.max_abs_error, std::isnan(error) ? 0 : error);
    }
  }
  if (share > result.worst_share || result.worst.empty()) {
    result.worst = name;
    result.worst_share = share;
  }
  if (difference.empty()) return;
  if (result.equal) result.first_difference = difference;
  result.equal = false;
}

}  // namespace

absl::StatusOr<ReferenceFolder> LoadReferenceFolder(const std::string& path) {
  ReferenceFolder folder;
  folder.path = path;
  folder.model = absl::StrCat(path, "/model.onnx");
  RETURN_IF_ERROR(ReadMeta(absl::StrCat(path, "/meta.json"), folder));
  RETURN_IF_ERROR(ReadBatches(absl::StrCat(path, "/batch.safetensors"), folder));
  RETURN_IF_ERROR(ReadExpected(absl::StrCat(path, "/expected.safetensors"), folder));
  return folder;
}

ReferenceComparison CompareWithReference(const ReferenceFolder& reference, const RunValues& got,
                                         const ByTensor& rounding) {
  std::map<std::string, double> largest;  // by kind
  for (const auto& [name, want] : reference.expected) {
    double& most = largest[KindOf(name)];
    most = std::max(most, Largest(want));
  }
  ReferenceComparison result;
  for (const auto& [name, want] : reference.expected) {
    const auto tolerance = reference.tolerance.find(KindOf(name));
    if (tolerance == reference.tolerance.end()) continue;
    const double scale = std::max(Largest(want), 0.01 * largest[KindOf(name)]);
    const auto found = got.find(name);
    const bool required = KindOf(name) == "loss" || KindOf(name) == "final";
    if (found == got.end() && !required) continue;
    const auto known = rounding.find(name);
    const double allowed =
        std::max(tolerance->second * scale, known == rounding.end() ? 0 : known->second);
    CompareTensor(name, want, found == got.end() ? nullptr : &found->second, allowed, result);
  }
  return result;
}

}  // namespace partita
