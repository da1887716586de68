#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/support/data_file.h"

// The safetensors file format (https://github.com/huggingface/safetensors): eight bytes with the
// header's length, little endian; the header, a JSON object name -> {dtype, shape, data_offsets}
// with an optional member `__metadata__` (string -> string); then the tensors' bytes, row-major,
// little endian. The offsets count from the end of the header and must cover all the bytes, without
// holes and without overlaps.

namespace partita {

// Tensor of a file. `dtype` is the file's own word; kinds of words:
//   F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL
//                    convert to numbers;
//   F8_E4M3 F8_E5M2  have a known width, so their size is checked; only their bytes can be read;
//   any other word   no size is known; only its bytes can be read.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;  // shape without negative dimensions; empty for a scalar
  int64_t begin = 0;           // bytes, counted from the end of the header
  int64_t end = 0;

  int64_t elements() const;  // product of the shape
};

// The longest header that is read or written: the limit of the format's own implementation.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

// Largest rank accepted, above that of any tensor; keeps a hostile header from being expensive.
inline constexpr size_t kMaxSafetensorsRank = 64;

// Bytes at the beginning of a file that hold the header's length.
inline constexpr size_t kSafetensorsPrefix = 8;

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;  // keyed by name
  std::map<std::string, std::string> metadata;
  int64_t data = 0;  // offset in the file where the tensors' bytes begin

  // NotFound, naming `file` and some of the tensors that it has.
  absl::StatusOr<const SafetensorsEntry*> Find(const std::string& name,
                                               const std::string& file) const;
};

// Bytes of one element; nothing for a word that this program does not know.
std::optional<int64_t> SafetensorsWidth(const std::string& dtype);

// The length of the header from a file's first bytes (kSafetensorsPrefix of them, or all if the
// file is shorter). InvalidArgument, naming `file`, if it cannot be that of a file of `size` bytes.
absl::StatusOr<int64_t> SafetensorsHeaderLength(absl::string_view prefix, int64_t size,
                                                const std::string& file);

// Parses the JSON text of a header of a file of `size` bytes in one pass, building nothing but the
// result. Checks its form (members, types, names given twice, begin <= end, and for a known dtype
// that the bytes fill the shape) and that the tensors cover the rest of the file. InvalidArgument
// names `file` and the tensor.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json, int64_t size,
                                                         const std::string& file);

// Reads and parses the header only.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const DataFile& file);

}  // namespace partita
