#include "runtime/train/data/data_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace partita {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 31;

std::vector<int64_t> WithoutOnes(const SampleShape& shape) {
  std::vector<int64_t> dims = shape.dims;
  std::erase(dims, 1);
  return dims;
}

}  // namespace

int64_t SampleShape::elements() const {
  int64_t product = 1;
  for (int64_t extent : dims) product *= extent;
  return product;
}

std::string SampleShape::ToString() const { return absl::StrJoin(dims, "x"); }

absl::Status CheckSampleShape(const SampleShape& shape, const std::string& what) {
  bool good = !shape.dims.empty() && shape.dims.size() <= 8;
  int64_t product = 1;
  for (int64_t extent : shape.dims) {
    good = good && extent > 0 && !__builtin_mul_overflow(product, extent, &product) &&
           product <= kMaxElements;
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": a sample of shape [", absl::StrJoin(shape.dims, ", "),
                   "]; 1 to 8 positive extents with a product of at most 2^31 are wanted"));
}

absl::StatusOr<SampleShape> DeliveredShape(const SampleShape& found, const SampleShape& wanted,
                                           const std::string& what) {
  if (absl::Status status = CheckSampleShape(found, what); !status.ok()) return status;
  if (wanted.dims.empty()) return found;
  if (absl::Status status = CheckSampleShape(wanted, what); !status.ok()) return status;
  const bool flat = found.dims.size() == 1 || wanted.dims.size() == 1;
  if (flat ? found.elements() == wanted.elements() : WithoutOnes(found) == WithoutOnes(wanted)) {
    return wanted;
  }
  return absl::InvalidArgumentError(absl::StrCat(what, " has samples of ", found.ToString(), "; ",
                                                 wanted.ToString(), " is wanted by the model"));
}

absl::StatusOr<int> DeliveredClasses(const LargestLabel& largest, int wanted,
                                     const std::string& what) {
  const auto [label, sample] = largest;
  if (label < 0 || label >= INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": sample ", sample, " has the label ",
                                                   label, "; labels from 0 to ", INT32_MAX - 1,
                                                   " are wanted: number the classes from 0 on"));
  }
  if (wanted == 0) return static_cast<int>(label) + 1;
  if (label < wanted) return wanted;
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": sample ", sample, " has the label ", label, "; the model has ", wanted,
                   " classes, labels 0 to ", wanted - 1, ". Take a model with ", label + 1,
                   " outputs, or number the labels from 0 on without gaps"));
}

absl::Status CheckClassCount(int64_t found, int wanted, const std::string& what,
                             const std::string& remedy) {
  if (wanted == 0 || found == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", found, " classes; the model has ",
                                                 wanted, ". Take a model with ", found,
                                                 " outputs, or ", remedy));
}

std::string NoteOnClasses(const DataSource& source) {
  const int labelled = source.labelled_classes(), classes = source.classes();
  if (labelled >= classes) return "";
  return absl::StrCat(source.Describe(), ": the largest label is ", labelled - 1,
                      "; the model has ", classes, " classes, and no sample is of the last ",
                      classes - labelled, ". If the data have no more classes, take a model with ",
                      labelled, " outputs");
}

}  // namespace partita
