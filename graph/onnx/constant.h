#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/box.h"
#include "graph/model/model_limits.h"
#include "proto/onnx/onnx.pb.h"

namespace partita::onnx {

// TensorProto.DataType, by ONNX's numbers.
enum class ElementType : int32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};

// "float", "int64", ...; "type 42" for a number that is not in the list above.
std::string NameOf(ElementType type);
bool IsFloating(ElementType type);
// Bytes of one element; 0 for strings and for types that are not supported.
int64_t SizeOf(ElementType type);

// The largest constant that is folded.
constexpr int64_t kMaxConstantElements = int64_t{1} << 20;

// A small tensor whose values are known: shapes, axes, ratios. Row-major; integers and booleans in
// `ints`, floating types in `reals`, the other list empty.
struct Constant {
  ElementType type = ElementType::kInt64;
  Shape shape;
  std::vector<int64_t> ints;
  std::vector<double> reals;

  int64_t size() const { return Volume(shape); }
  bool floating() const { return IsFloating(type); }
  // Element i as a number of the other kind (integers truncate).
  double RealAt(size_t i) const;
  int64_t IntAt(size_t i) const;

  static Constant Ints(std::vector<int64_t> values);  // a vector
  static Constant Int(int64_t value);                 // a scalar
  static Constant Reals(std::vector<double> values);
  static Constant Real(double value);
};

// Location of a tensor's values: in the model file or in a side file. Nothing is read yet.
struct TensorSource {
  ElementType type;
  Shape shape;
  int64_t elements = 0;
  bool external = false;
  std::string location;  // external: a path from the model's folder
  int64_t offset = 0, length = 0;
};

// Checks a tensor: known type, sane shape, embedded values of the right number, side file named
// within the model's folder. Errors name the tensor.
absl::StatusOr<TensorSource> DescribeTensor(const TensorProto& tensor);

// An embedded tensor of at most kMaxConstantElements.
absl::StatusOr<Constant> ReadConstant(const TensorProto& tensor, const TensorSource& source);

// Whether the values of a tensor are there: embedded, or in a side file below `folder` (empty:
// nowhere). InvalidArgument if the side file is too short for them or leads out of the folder.
absl::StatusOr<bool> HasValues(const TensorSource& source, const std::string& folder);

// Takes memory for all values of a floating tensor and reads them into it as float. For a tensor
// that HasValues.
absl::Status ReadFloats(const TensorProto& tensor, const TensorSource& source,
                        const std::string& folder, std::vector<float>& values);

}  // namespace partita::onnx
