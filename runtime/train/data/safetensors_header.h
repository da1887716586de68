#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/train/data/safetensors.h"

namespace partita {

// The longest header that is read or written: the limit of the format's own implementation.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

// More dimensions than any tensor has; keeps a hostile header from being expensive.
inline constexpr size_t kMaxSafetensorsRank = 64;

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Bytes of one element; nothing for a word that this program does not know.
std::optional<int64_t> SafetensorsWidth(const std::string& dtype);

// Parses the JSON text of a header in one pass, building nothing but the result. Checks its form:
// members, types, names given twice, begin <= end, and for a known dtype that the bytes fill the
// shape. InvalidArgument names `file` and the tensor.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         const std::string& file);

}  // namespace partita
