#include "runtime/train/data/safetensors_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/status_macros.h"
#include "runtime/train/data/safetensors.h"

namespace partita {
namespace {

class SafetensorsSource : public DataSource {
 public:
  SafetensorsSource(SafetensorsFile file, std::vector<int32_t> labels, SampleShape shape,
                    int classes)
      : file_(std::move(file)),
        labels_(std::move(labels)),
        shape_(std::move(shape)),
        classes_(classes),
        labelled_classes_(*std::ranges::max_element(labels_) + 1) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const SampleShape& shape() const override { return shape_; }
  int classes() const override { return classes_; }
  int labelled_classes() const override { return labelled_classes_; }

  absl::Status Read(int64_t index, int64_t /*epoch*/, std::span<float> x,
                    int32_t* label) const override {
    *label = labels_[static_cast<size_t>(index)];
    return file_.CopyFloats("x", index * shape_.elements(), x);
  }

  std::string Describe() const override {
    return absl::StrCat("tensors x and y of '", file_.path(), "': ", size(), " samples of ",
                        shape_.ToString(), ", ", classes_, " classes");
  }

 private:
  SafetensorsFile file_;
  std::vector<int32_t> labels_;
  SampleShape shape_;
  int classes_, labelled_classes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenSafetensorsSource(
    const SafetensorsSourceOptions& options) {
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(options.path));
  ASSIGN_OR_RETURN(const SafetensorsEntry* x, file.Find("x"));
  ASSIGN_OR_RETURN(const SafetensorsEntry* y, file.Find("y"));
  const size_t rank = y->shape.size();
  const bool fits = (rank == 1 || rank == 2) && x->shape.size() > rank &&
                    std::equal(y->shape.begin(), y->shape.end(), x->shape.begin());
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", options.path, "' has x [", absl::StrJoin(x->shape, ", "), "] and y [",
        absl::StrJoin(y->shape, ", "),
        "]; x [n, ...] with y [n], or x [steps, batch, ...] with y [steps, batch] is wanted"));
  }
  const std::string what = absl::StrCat("'", options.path, "'");
  const SampleShape found{{x->shape.begin() + static_cast<int64_t>(rank), x->shape.end()}};
  ASSIGN_OR_RETURN(SampleShape shape, DeliveredShape(found, options.shape, what));
  RETURN_IF_ERROR(file.CopyFloats("x", 0, {}));  // is its dtype one that converts?
  ASSIGN_OR_RETURN(const std::vector<int64_t> values, file.Integers("y"));
  if (values.empty()) return absl::InvalidArgumentError(absl::StrCat(what, " has no samples"));
  // A negative label is as wrong as one beyond the classes.
  const auto [least, largest] = std::ranges::minmax_element(values);
  const auto place = *least < 0 ? least : std::ranges::find(values, *largest);
  ASSIGN_OR_RETURN(const int classes, DeliveredClasses({*place, place - values.begin()},
                                                       options.classes, what + " tensor 'y'"));
  std::vector<int32_t> labels(values.begin(), values.end());
  return std::make_unique<SafetensorsSource>(std::move(file), std::move(labels), std::move(shape),
                                             classes);
}

}  // namespace partita
