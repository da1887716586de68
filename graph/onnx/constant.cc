#include "graph/onnx/constant.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/support/data_file.h"
#include "graph/support/error_category.h"
#include "graph/support/half.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

struct TypeRow {
  ElementType type;
  const char* name;
  int64_t size;
  bool floating;
};

constexpr std::array<TypeRow, 14> kTypes = {{
    {ElementType::kFloat, "float", 4, true},
    {ElementType::kUint8, "uint8", 1, false},
    {ElementType::kInt8, "int8", 1, false},
    {ElementType::kUint16, "uint16", 2, false},
    {ElementType::kInt16, "int16", 2, false},
    {ElementType::kInt32, "int32", 4, false},
    {ElementType::kInt64, "int64", 8, false},
    {ElementType::kString, "string", 0, false},
    {ElementType::kBool, "bool", 1, false},
    {ElementType::kFloat16, "float16", 2, true},
    {ElementType::kDouble, "double", 8, true},
    {ElementType::kUint32, "uint32", 4, false},
    {ElementType::kUint64, "uint64", 8, false},
    {ElementType::kBfloat16, "bfloat16", 2, true},
}};

const TypeRow* FindType(ElementType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

template <class T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// One element from little-endian bytes.
double RealFrom(ElementType type, const char* bytes) {
  switch (type) {
    case ElementType::kFloat:
      return Load<float>(bytes);
    case ElementType::kDouble:
      return Load<double>(bytes);
    case ElementType::kFloat16:
      return static_cast<float>(Float16{Load<uint16_t>(bytes)});
    default:
      return static_cast<float>(Bfloat16{Load<uint16_t>(bytes)});
  }
}

int64_t IntFrom(ElementType type, const char* bytes) {
  switch (type) {
    case ElementType::kUint8:
      return Load<uint8_t>(bytes);
    case ElementType::kInt8:
      return Load<int8_t>(bytes);
    case ElementType::kBool:
      return Load<uint8_t>(bytes) != 0;
    case ElementType::kUint16:
      return Load<uint16_t>(bytes);
    case ElementType::kInt16:
      return Load<int16_t>(bytes);
    case ElementType::kInt32:
      return Load<int32_t>(bytes);
    case ElementType::kUint32:
      return Load<uint32_t>(bytes);
    default:
      return Load<int64_t>(bytes);
  }
}

// The number of values in the typed list that ONNX prescribes for a type (-1: none).
int64_t TypedCount(const TensorProto& tensor, ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return tensor.float_data_size();
    case ElementType::kDouble:
      return tensor.double_data_size();
    case ElementType::kInt64:
      return tensor.int64_data_size();
    case ElementType::kUint32:
    case ElementType::kUint64:
      return tensor.uint64_data_size();
    case ElementType::kString:
      return tensor.string_data_size();
    default:
      return tensor.int32_data_size();
  }
}

double TypedReal(const TensorProto& tensor, ElementType type, int i) {
  switch (type) {
    case ElementType::kFloat:
      return tensor.float_data(i);
    case ElementType::kDouble:
      return tensor.double_data(i);
    case ElementType::kFloat16:
      return static_cast<float>(Float16{static_cast<uint16_t>(tensor.int32_data(i))});
    default:
      return static_cast<float>(Bfloat16{static_cast<uint16_t>(tensor.int32_data(i))});
  }
}

int64_t TypedInt(const TensorProto& tensor, ElementType type, int i) {
  switch (type) {
    case ElementType::kInt64:
      return tensor.int64_data(i);
    case ElementType::kUint32:
    case ElementType::kUint64:
      return static_cast<int64_t>(tensor.uint64_data(i));
    default:
      return tensor.int32_data(i);
  }
}

absl::Status DescribeExternal(const TensorProto& tensor, TensorSource& source) {
  source.external = true;
  const int64_t bytes = source.elements * SizeOf(source.type);
  source.length = bytes;
  for (const StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") source.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    int64_t value = 0;
    if (!absl::SimpleAtoi(entry.value(), &value) || value < 0) {
      return absl::InvalidArgumentError(absl::StrCat("the side file's ", entry.key(), " is '",
                                                     entry.value(), "', not a number >= 0"));
    }
    (entry.key() == "offset" ? source.offset : source.length) = value;
  }
  if (source.length != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its side file holds ", source.length, " bytes for it; its shape and type need ", bytes));
  }
  const std::filesystem::path path(source.location);
  const bool climbs =
      std::any_of(path.begin(), path.end(), [](const auto& p) { return p == ".."; });
  if (path.empty() || path.is_absolute() || climbs ||
      source.location.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("its side file '", source.location,
                                                   "' is not a path inside the model's folder"));
  }
  return absl::OkStatus();
}

absl::Status CheckEmbedded(const TensorProto& tensor, const TensorSource& source) {
  if (tensor.has_raw_data() && source.type != ElementType::kString) {
    const int64_t bytes = source.elements * SizeOf(source.type);
    if (static_cast<int64_t>(tensor.raw_data().size()) == bytes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("it has ", tensor.raw_data().size(),
                                                   " bytes of data; shape ", ToString(source.shape),
                                                   " of ", NameOf(source.type), " needs ", bytes));
  }
  const int64_t count = TypedCount(tensor, source.type);
  if (count == source.elements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "it has ", count, " values; shape ", ToString(source.shape), " needs ", source.elements));
}

absl::StatusOr<std::string> PathOf(const TensorSource& source, const std::string& folder) {
  std::error_code root_error, error;
  const auto root = std::filesystem::weakly_canonical(folder, root_error);
  const auto path = std::filesystem::weakly_canonical(root / source.location, error);
  if (root_error == std::errc::not_enough_memory || error == std::errc::not_enough_memory) {
    return MemoryError(absl::StrCat("no memory to find side file '", source.location, "'"));
  }
  if (root_error || error ||
      std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first != root.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("side file '", source.location, "' leads out of the model's folder"));
  }
  return path.string();
}

// Converts by pieces, so that the file's form of the values is never there as a whole.
absl::Status ReadConverted(const DataFile& file, const TensorSource& source,
                           std::vector<float>& values) {
  constexpr size_t kPiece = 1 << 16;  // elements
  const auto size = static_cast<size_t>(SizeOf(source.type));
  std::vector<char> piece(std::min(kPiece, values.size()) * size);
  for (size_t done = 0; done < values.size(); done += kPiece) {
    const size_t count = std::min(kPiece, values.size() - done);
    RETURN_IF_ERROR(file.Read(source.offset + static_cast<int64_t>(done * size),
                              std::as_writable_bytes(std::span(piece).first(count * size))));
    for (size_t i = 0; i < count; ++i) {
      values[done + i] = static_cast<float>(RealFrom(source.type, piece.data() + i * size));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadExternal(const TensorSource& source, const std::string& folder,
                          std::vector<float>& values) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(source, folder));
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  values.resize(static_cast<size_t>(source.elements));
  if (source.type != ElementType::kFloat) return ReadConverted(file, source, values);
  return file.Read(source.offset, std::as_writable_bytes(std::span(values)));
}

}  // namespace

std::string NameOf(ElementType type) {
  const TypeRow* row = FindType(type);
  return row != nullptr ? row->name : absl::StrCat("type ", static_cast<int32_t>(type));
}

bool IsFloating(ElementType type) {
  const TypeRow* row = FindType(type);
  return row != nullptr && row->floating;
}

int64_t SizeOf(ElementType type) {
  const TypeRow* row = FindType(type);
  return row != nullptr ? row->size : 0;
}

double Constant::RealAt(size_t i) const {
  return floating() ? reals[i] : static_cast<double>(ints[i]);
}

int64_t Constant::IntAt(size_t i) const {
  if (!floating()) return ints[i];
  const double limit = 9e18;
  return std::isnan(reals[i]) ? 0 : static_cast<int64_t>(std::clamp(reals[i], -limit, limit));
}

Constant Constant::Ints(std::vector<int64_t> values) {
  Constant c;
  c.shape = {static_cast<int64_t>(values.size())};
  c.ints = std::move(values);
  return c;
}

Constant Constant::Int(int64_t value) {
  Constant c;
  c.ints = {value};
  return c;
}

Constant Constant::Reals(std::vector<double> values) {
  Constant c;
  c.type = ElementType::kFloat;
  c.shape = {static_cast<int64_t>(values.size())};
  c.reals = std::move(values);
  return c;
}

Constant Constant::Real(double value) {
  Constant c;
  c.type = ElementType::kFloat;
  c.reals = {value};
  return c;
}

absl::StatusOr<TensorSource> DescribeTensor(const TensorProto& tensor) {
  TensorSource source{.type = static_cast<ElementType>(tensor.data_type())};
  const auto describe = [&]() -> absl::Status {
    if (FindType(source.type) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("its element ", NameOf(source.type), " is unknown"));
    }
    if (tensor.dims_size() > 8) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has ", tensor.dims_size(), " dimensions; at most 8 are supported"));
    }
    source.shape.assign(tensor.dims().begin(), tensor.dims().end());
    ASSIGN_OR_RETURN(source.elements, CheckedVolume(source.shape));
    if (tensor.has_segment()) return absl::InvalidArgumentError("segments are not supported");
    if (tensor.data_location() == 1) return DescribeExternal(tensor, source);
    return CheckEmbedded(tensor, source);
  };
  if (absl::Status status = describe(); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name(), "': ", status.message()));
  }
  return source;
}

absl::StatusOr<Constant> ReadConstant(const TensorProto& tensor, const TensorSource& source) {
  if (source.external || source.elements > kMaxConstantElements ||
      source.type == ElementType::kString) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name(), "' (", NameOf(source.type), ToString(source.shape),
                     source.external ? ", in a side file" : "",
                     ") is not a small constant, but its values are needed to import the model"));
  }
  Constant c{.type = source.type, .shape = source.shape};
  const auto size = static_cast<size_t>(SizeOf(source.type));
  const char* raw = tensor.has_raw_data() ? tensor.raw_data().data() : nullptr;
  for (int i = 0; i < static_cast<int>(source.elements); ++i) {
    const char* bytes = raw ? raw + static_cast<size_t>(i) * size : nullptr;
    if (IsFloating(source.type)) {
      c.reals.push_back(raw ? RealFrom(source.type, bytes) : TypedReal(tensor, source.type, i));
    } else {
      c.ints.push_back(raw ? IntFrom(source.type, bytes) : TypedInt(tensor, source.type, i));
    }
  }
  return c;
}

absl::StatusOr<bool> HasValues(const TensorSource& source, const std::string& folder) {
  if (!source.external) return true;
  if (folder.empty()) return false;
  ASSIGN_OR_RETURN(const std::string path, PathOf(source, folder));
  const auto file = DataFile::Open(path);
  if (absl::IsNotFound(file.status())) return false;
  RETURN_IF_ERROR(file.status());
  if (source.length <= file->size() && source.offset <= file->size() - source.length) return true;
  return absl::InvalidArgumentError(absl::StrCat("side file '", path, "' ends at byte ",
                                                 file->size(), ", before byte ", source.offset,
                                                 " + ", source.length));
}

absl::Status ReadFloats(const TensorProto& tensor, const TensorSource& source,
                        const std::string& folder, std::vector<float>& values) {
  if (source.external) return ReadExternal(source, folder, values);
  const auto count = static_cast<size_t>(source.elements);
  values.resize(count);
  const std::string* raw = tensor.has_raw_data() ? &tensor.raw_data() : nullptr;
  if (raw != nullptr && source.type == ElementType::kFloat) {
    if (count > 0) std::memcpy(values.data(), raw->data(), count * sizeof(float));
    return absl::OkStatus();
  }
  const auto size = static_cast<size_t>(SizeOf(source.type));
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(raw ? RealFrom(source.type, raw->data() + i * size)
                                       : TypedReal(tensor, source.type, static_cast<int>(i)));
  }
  return absl::OkStatus();
}

}  // namespace partita::onnx
