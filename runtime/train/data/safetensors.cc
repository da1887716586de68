#include "runtime/train/data/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/half.h"
#include "graph/support/mapped_file.h"
#include "graph/support/status_macros.h"
#include "runtime/train/data/safetensors_checksums.h"

namespace partita {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

template <class T>
constexpr const char* DTypeOf() {
  if constexpr (std::is_same_v<T, float>) return "F32";
  if constexpr (std::is_same_v<T, double>) return "F64";
  if constexpr (std::is_same_v<T, int64_t>) return "I64";
  if constexpr (std::is_same_v<T, int32_t>) return "I32";
  if constexpr (std::is_same_v<T, uint8_t>) return "U8";
}

// The byte of a truth value: any but 0 is true.
struct Bool {
  uint8_t byte = 0;
  explicit operator float() const { return byte != 0 ? 1.f : 0.f; }
  explicit operator int64_t() const { return byte != 0; }
};

template <class T>
constexpr bool kIsInteger = std::is_integral_v<T> || std::is_same_v<T, Bool>;

// Calls visit(T()) for the element type T of `dtype`; false if it has none.
template <class Visit>
bool VisitType(const std::string& dtype, const Visit& visit) {
  if (dtype == "F64") return visit(double()), true;
  if (dtype == "F32") return visit(float()), true;
  if (dtype == "F16") return visit(Float16()), true;
  if (dtype == "BF16") return visit(Bfloat16()), true;
  if (dtype == "I64") return visit(int64_t()), true;
  if (dtype == "I32") return visit(int32_t()), true;
  if (dtype == "I16") return visit(int16_t()), true;
  if (dtype == "I8") return visit(int8_t()), true;
  if (dtype == "U64") return visit(uint64_t()), true;
  if (dtype == "U32") return visit(uint32_t()), true;
  if (dtype == "U16") return visit(uint16_t()), true;
  if (dtype == "U8") return visit(uint8_t()), true;
  if (dtype == "BOOL") return visit(Bool()), true;
  return false;
}

constexpr char kNumbers[] = "a float of 16 to 64 bits, an integer or BOOL";
constexpr char kIntegers[] = "an integer or BOOL";

}  // namespace

struct SafetensorsFile::State {
  std::string path;
  std::optional<MappedFile> mapped;  // either this
  std::string owned;                 // or this holds the bytes
  SafetensorsHeader header;
  std::map<std::string, std::string> checksums;  // of the metadata, the rest is the header's
  std::span<const std::byte> data;               // what follows the header
  std::map<std::string, std::vector<std::byte>> aligned;  // copies of tensors that lie badly

  absl::Status Check() const { return mapped ? mapped->Check() : absl::OkStatus(); }
  std::span<const std::byte> AllBytes() const {
    return mapped ? mapped->bytes() : std::as_bytes(std::span(owned));
  }
  std::span<const std::byte> Bytes(const SafetensorsEntry& entry) const {
    if (const auto copy = aligned.find(entry.name); copy != aligned.end()) return copy->second;
    return data.subspan(static_cast<size_t>(entry.begin),
                        static_cast<size_t>(entry.end - entry.begin));
  }
};

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto state = std::make_shared<State>();
  state->path = path;
  state->mapped = std::move(file);
  return Validate(std::move(state));
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Parse(std::string bytes, const std::string& name) {
  auto state = std::make_shared<State>();
  state->path = name;
  state->owned = std::move(bytes);
  return Validate(std::move(state));
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Validate(std::shared_ptr<State> state) {
  const std::span<const std::byte> all = state->AllBytes();
  const absl::string_view text(reinterpret_cast<const char*>(all.data()), all.size());
  const auto size = static_cast<int64_t>(all.size());
  ASSIGN_OR_RETURN(const int64_t length, SafetensorsHeaderLength(text, size, state->path));
  absl::StatusOr<SafetensorsHeader> parsed = ParseSafetensorsHeader(
      text.substr(kSafetensorsPrefix, static_cast<size_t>(length)), size, state->path);
  RETURN_IF_ERROR(state->Check());
  RETURN_IF_ERROR(parsed.status());
  state->header = *std::move(parsed);
  auto& metadata = state->header.metadata;
  for (auto it = metadata.begin(); it != metadata.end();) {
    const auto next = std::next(it);
    if (absl::StartsWith(it->first, kChecksumKey)) state->checksums.insert(metadata.extract(it));
    it = next;
  }
  state->data = all.subspan(static_cast<size_t>(state->header.data));
  for (const auto& [name, entry] : state->header.tensors) {
    const std::span<const std::byte> bytes = state->Bytes(entry);
    const int64_t width = SafetensorsWidth(entry.dtype).value_or(1);
    if (reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(width) == 0) continue;
    state->aligned.emplace(name, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  RETURN_IF_ERROR(state->Check());
  return SafetensorsFile(std::move(state));
}

const std::string& SafetensorsFile::path() const { return state_->path; }

absl::Status SafetensorsFile::Check() const { return state_->Check(); }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return state_->header.metadata;
}

absl::Status SafetensorsFile::CheckChecksums() const {
  const std::span<const std::byte> all = state_->AllBytes();
  const size_t header = all.size() - state_->data.size();
  const absl::Status same = partita::CheckChecksums(
      {*this, {reinterpret_cast<const char*>(all.data()), header}, state_->checksums});
  RETURN_IF_ERROR(Check());
  return same;
}

const std::map<std::string, SafetensorsEntry>& SafetensorsFile::tensors() const {
  return state_->header.tensors;
}

absl::StatusOr<const SafetensorsEntry*> SafetensorsFile::Find(const std::string& name) const {
  return state_->header.Find(name, path());
}

absl::StatusOr<std::span<const std::byte>> SafetensorsFile::Bytes(const std::string& name) const {
  ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
  return state_->Bytes(*entry);
}

template <class T>
absl::StatusOr<std::span<const T>> SafetensorsFile::View(const std::string& name) const {
  ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
  if (entry->dtype != DTypeOf<T>()) {
    return absl::InvalidArgumentError(absl::StrCat("'", path(), "': tensor '", name, "' is ",
                                                   entry->dtype, "; ", DTypeOf<T>(), " is wanted"));
  }
  const std::span<const std::byte> bytes = state_->Bytes(*entry);
  return std::span(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
}

absl::Status SafetensorsFile::CopyFloats(const std::string& name, int64_t first,
                                         std::span<float> out) const {
  ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
  const int64_t elements = entry->elements();
  if (first < 0 || first > elements || static_cast<int64_t>(out.size()) > elements - first) {
    return EndError(absl::StrCat("'", path(), "': tensor '", name, "' has ", elements,
                                 " elements; ", out.size(), " from ", first, " on are wanted"));
  }
  const std::span<const std::byte> bytes = state_->Bytes(*entry);
  const bool known = VisitType(entry->dtype, [&](auto type) {
    const auto* from = reinterpret_cast<const decltype(type)*>(bytes.data()) + first;
    std::transform(from, from + out.size(), out.begin(),
                   [](auto value) { return static_cast<float>(value); });
  });
  if (known) return Check();
  return absl::InvalidArgumentError(absl::StrCat("'", path(), "': tensor '", name, "' is ",
                                                 entry->dtype.substr(0, 100), "; ", kNumbers,
                                                 " is wanted"));
}

absl::StatusOr<std::vector<float>> SafetensorsFile::Floats(const std::string& name) const {
  ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
  // An unknown dtype's shape is not bounded by the file: let CopyFloats refuse it before memory is
  // taken.
  if (!VisitType(entry->dtype, [](auto) {})) RETURN_IF_ERROR(CopyFloats(name, 0, {}));
  std::vector<float> values(static_cast<size_t>(entry->elements()));
  RETURN_IF_ERROR(CopyFloats(name, 0, values));
  return values;
}

absl::StatusOr<std::vector<int64_t>> SafetensorsFile::Integers(const std::string& name) const {
  ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
  const std::span<const std::byte> bytes = state_->Bytes(*entry);
  std::vector<int64_t> values;
  bool integer = false;
  VisitType(entry->dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (kIsInteger<T>) {
      const auto* from = reinterpret_cast<const T*>(bytes.data());
      std::transform(from, from + entry->elements(), std::back_inserter(values),
                     [](T value) { return static_cast<int64_t>(value); });
      integer = true;
    }
  });
  RETURN_IF_ERROR(Check());
  if (!integer) {
    return absl::InvalidArgumentError(absl::StrCat("'", path(), "': tensor '", name, "' is ",
                                                   entry->dtype.substr(0, 100), "; ", kIntegers,
                                                   " is wanted"));
  }
  if (entry->dtype != "U64" || std::ranges::all_of(values, [](int64_t v) { return v >= 0; })) {
    return values;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", path(), "': tensor '", name, "' has numbers of 2^63 or more"));
}

template <class T>
TensorToWrite MakeTensorToWrite(std::string name, std::vector<int64_t> shape,
                                std::span<const T> values) {
  return {std::move(name), DTypeOf<T>(), std::move(shape), std::as_bytes(values)};
}

#define PARTITA_SAFETENSORS_TYPE(T)                                                               \
  template absl::StatusOr<std::span<const T>> SafetensorsFile::View<T>(const std::string&) const; \
  template TensorToWrite MakeTensorToWrite<T>(std::string, std::vector<int64_t>, std::span<const T>)
PARTITA_SAFETENSORS_TYPE(float);
PARTITA_SAFETENSORS_TYPE(double);
PARTITA_SAFETENSORS_TYPE(int64_t);
PARTITA_SAFETENSORS_TYPE(int32_t);
PARTITA_SAFETENSORS_TYPE(uint8_t);
#undef PARTITA_SAFETENSORS_TYPE

namespace {

absl::Status CheckTensorToWrite(const std::string& path, const TensorToWrite& tensor) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path, "': tensor '", tensor.name, "' ", what));
  };
  if (tensor.name == "__metadata__") return bad("has a reserved name");
  const std::optional<int64_t> width = SafetensorsWidth(tensor.dtype);
  if (!width) return bad(absl::StrCat("has the unknown dtype '", tensor.dtype, "'"));
  if (tensor.shape.size() > kMaxSafetensorsRank) return bad("has too many dimensions");
  const bool empty = std::ranges::count(tensor.shape, 0) > 0;
  int64_t bytes = empty ? 0 : *width;
  for (int64_t extent : tensor.shape) {
    if (extent < 0) return bad("has a negative dimension");
    if (!empty && __builtin_mul_overflow(bytes, extent, &bytes)) return bad("is too large");
  }
  if (static_cast<int64_t>(tensor.bytes.size()) == bytes) return absl::OkStatus();
  return bad(absl::StrCat("has ", tensor.bytes.size(), " bytes; its shape takes ", bytes));
}

// In the order in which they are stored.
std::vector<const TensorToWrite*> StorageOrder(std::span<const TensorToWrite> tensors) {
  std::vector<const TensorToWrite*> order;
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, [](const TensorToWrite* a, const TensorToWrite* b) {
    return std::pair(-*SafetensorsWidth(a->dtype), a->name) <
           std::pair(-*SafetensorsWidth(b->dtype), b->name);
  });
  return order;
}

// What the file begins with: its length in kSafetensorsPrefix bytes and the header, with spaces
// after it, so that the data begin at a multiple of eight. Throws for what is not UTF-8.
absl::StatusOr<std::string> PrefixedHeader(std::span<const TensorToWrite* const> order,
                                           std::map<std::string, std::string> metadata) {
  RETURN_IF_ERROR(AddChecksums(order, metadata));
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  header["__metadata__"] = metadata;
  size_t done = 0;
  for (const TensorToWrite* tensor : order) {
    header.push_back({tensor->name,
                      {{"dtype", tensor->dtype},
                       {"shape", tensor->shape},
                       {"data_offsets", {done, done + tensor->bytes.size()}}}});
    done += tensor->bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), kSafetensorsPrefix);
  RETURN_IF_ERROR(SealHeader(text));
  return text;
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata) {
  for (const TensorToWrite& tensor : tensors) RETURN_IF_ERROR(CheckTensorToWrite(path, tensor));
  const std::vector<const TensorToWrite*> order = StorageOrder(tensors);
  std::vector<absl::string_view> names;
  for (const TensorToWrite* tensor : order) names.push_back(tensor->name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path, "': tensor '", *twice, "' is given twice"));
  }
  std::string header;
  try {
    ASSIGN_OR_RETURN(header, PrefixedHeader(order, metadata));
  } catch (const nlohmann::json::exception& error) {  // a name or metadata that is not UTF-8
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path, "': a name is not UTF-8 (", error.what(), ")"));
  }
  if (static_cast<int64_t>(header.size() - kSafetensorsPrefix) > kMaxSafetensorsHeader) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write '", path,
                                                   "': its header would have ",
                                                   header.size() - kSafetensorsPrefix, " bytes"));
  }
  std::vector<absl::string_view> pieces = {header};
  for (const TensorToWrite* tensor : order) {
    pieces.emplace_back(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
  }
  return WriteFileAtomically(path, pieces);
}

}  // namespace partita
