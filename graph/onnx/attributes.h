#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/onnx/onnx.pb.h"

namespace partita::onnx {

// Reads a node's attributes. A wrong type or a value out of range is remembered, the default
// returned, and the first such error is status(), so that callers read all and check once.
class Attributes {
 public:
  explicit Attributes(const NodeProto& node);

  bool Has(absl::string_view name) const { return Find(name) != nullptr; }
  // Integers are limited to [lo, hi]. The bounds keep later arithmetic far from overflow.
  int64_t Int(absl::string_view name, int64_t otherwise, int64_t lo = -kLimit, int64_t hi = kLimit);
  std::vector<int64_t> Ints(absl::string_view name, std::vector<int64_t> otherwise,
                            int64_t lo = -kLimit, int64_t hi = kLimit);
  double Float(absl::string_view name, double otherwise);
  std::vector<float> Floats(absl::string_view name);
  std::string String(absl::string_view name, const std::string& otherwise);
  std::vector<std::string> Strings(absl::string_view name);
  const TensorProto* Tensor(absl::string_view name);

  const absl::Status& status() const { return status_; }

  static constexpr int64_t kLimit = (int64_t{1} << 31) - 1;

 private:
  enum Type {
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kFloats = 6,
    kInts = 7,
    kStrings = 8
  };
  const AttributeProto* Find(absl::string_view name) const;
  const AttributeProto* FindTyped(absl::string_view name, Type type);
  int64_t Limited(absl::string_view name, int64_t value, int64_t lo, int64_t hi);

  const NodeProto& node_;
  absl::Status status_;
};

}  // namespace partita::onnx
