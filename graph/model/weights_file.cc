#include "graph/model/weights_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/support/file.h"
#include "graph/support/sha256.h"
#include "graph/support/status_macros.h"
#include "graph/support/utf8.h"

namespace partita {
namespace {

constexpr size_t kDigitsInName = 16;

absl::StatusOr<std::string> Quoted(const std::string& name) {
  std::string json = "\"";
  for (size_t i = 0; i < name.size();) {
    const size_t length = Utf8Length(name, i);
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a weight's name is not UTF-8 at byte ", i, ": it cannot be saved"));
    }
    const auto c = static_cast<uint8_t>(name[i]);
    if (c < 0x20) {
      absl::StrAppendFormat(&json, "\\u%04x", c);
    } else {
      if (c == '"' || c == '\\') json += '\\';
      json.append(name, i, length);
    }
    i += length;
  }
  return json + "\"";
}

// The header and the pieces of the file that follow it.
absl::StatusOr<std::string> HeaderOf(const Graph& graph, std::vector<absl::string_view>& pieces) {
  std::string header;
  int64_t end = 0;
  for (const Weight& weight : graph.weights()) {
    if (weight.values == nullptr) continue;
    const Tensor& tensor = graph.tensor(weight.tensor);
    ASSIGN_OR_RETURN(const std::string name, Quoted(tensor.name));
    const auto bytes = static_cast<int64_t>(weight.values->size() * sizeof(float));
    absl::StrAppend(&header, header.empty() ? "{" : ",", name, ":{\"dtype\":\"F32\",\"shape\":[",
                    absl::StrJoin(tensor.type.shape, ","), "],\"data_offsets\":[", end, ",",
                    end + bytes, "]}");
    pieces.emplace_back(reinterpret_cast<const char*>(weight.values->data()),
                        static_cast<size_t>(bytes));
    end += bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace

absl::Status WeightsHash::Add(absl::string_view name, const Shape& shape,
                              const std::vector<float>& values) {
  ASSIGN_OR_RETURN(const std::string digits,
                   Sha256Of(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                              values.size() * sizeof(float))));
  absl::StrAppend(&lines_, name, " ", ToString(shape), " ", digits, "\n");
  return absl::OkStatus();
}

absl::StatusOr<std::string> WeightsHash::Digits() const { return Sha256Of(lines_); }

absl::StatusOr<WrittenWeights> WriteWeightsFile(const Graph& graph, const std::string& model_path) {
  WeightsHash hash;
  bool any = false;
  for (const Weight& weight : graph.weights()) {
    if (weight.values == nullptr) continue;
    const Tensor& tensor = graph.tensor(weight.tensor);
    RETURN_IF_ERROR(hash.Add(tensor.name, tensor.type.shape, *weight.values));
    any = true;
  }
  if (!any) return WrittenWeights{};
  std::vector<absl::string_view> pieces(2);
  ASSIGN_OR_RETURN(const std::string header, HeaderOf(graph, pieces));
  char length[kSafetensorsPrefix];
  const uint64_t header_bytes = header.size();
  std::memcpy(length, &header_bytes, sizeof(length));
  pieces[0] = absl::string_view(length, sizeof(length));
  pieces[1] = header;
  WrittenWeights written;
  ASSIGN_OR_RETURN(written.hash, hash.Digits());
  const std::filesystem::path path =
      std::filesystem::path(model_path)
          .replace_extension(absl::StrCat(written.hash.substr(0, kDigitsInName), ".safetensors"));
  RETURN_IF_ERROR(WriteFileAtomically(path.string(), pieces));
  written.file = path.filename().string();
  return written;
}

absl::StatusOr<WeightsFile> WeightsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
  ASSIGN_OR_RETURN(SafetensorsHeader header, ReadSafetensorsHeader(file));
  return WeightsFile(std::move(file), std::move(header));
}

absl::StatusOr<int64_t> WeightsFile::Find(const std::string& name, const Shape& shape) const {
  const auto entry = header_.Find(name, path());
  if (!entry.ok()) return absl::InvalidArgumentError(entry.status().message());
  if ((*entry)->dtype == "F32" && std::ranges::equal((*entry)->shape, shape)) {
    return header_.data + (*entry)->begin;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", path(), "': tensor '", name, "' is ", (*entry)->dtype.substr(0, 100), "[",
                   absl::StrJoin((*entry)->shape, ","), "]; the model's is F32", ToString(shape)));
}

absl::Status WeightsFile::Read(int64_t offset, int64_t elements, std::vector<float>& values) const {
  values.resize(static_cast<size_t>(elements));
  return file_.Read(offset, std::as_writable_bytes(std::span(values)));
}

}  // namespace partita
