#include "graph/weights_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "graph/utf8.h"

namespace partita {
namespace {

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

}  // namespace

absl::StatusOr<std::map<std::string, int64_t>> WriteWeightsFile(const Graph& graph,
                                                                const std::string& path) {
  std::map<std::string, int64_t> offsets;
  std::vector<absl::string_view> pieces(2);
  std::string header = "{";
  int64_t end = 0;
  for (const Weight& weight : graph.weights()) {
    if (weight.values == nullptr) continue;
    const Tensor& tensor = graph.tensor(weight.tensor);
    ASSIGN_OR_RETURN(const std::string name, Quoted(tensor.name));
    const auto bytes = static_cast<int64_t>(weight.values->size() * sizeof(float));
    absl::StrAppend(&header, offsets.empty() ? "" : ",", name, ":{\"dtype\":\"F32\",\"shape\":[",
                    absl::StrJoin(tensor.type.shape, ","), "],\"data_offsets\":[", end, ",",
                    end + bytes, "]}");
    pieces.emplace_back(reinterpret_cast<const char*>(weight.values->data()),
                        static_cast<size_t>(bytes));
    offsets[tensor.name] = end;
    end += bytes;
  }
  if (offsets.empty()) return offsets;
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  char length[8];
  const uint64_t header_bytes = header.size();
  std::memcpy(length, &header_bytes, sizeof(length));
  pieces[0] = absl::string_view(length, sizeof(length));
  pieces[1] = header;
  for (auto& [name, offset] : offsets) offset += static_cast<int64_t>(8 + header.size());
  RETURN_IF_ERROR(WriteFileAtomically(path, pieces));
  return offsets;
}

absl::StatusOr<std::shared_ptr<const std::vector<float>>> ReadWeightValues(const std::string& path,
                                                                           int64_t offset,
                                                                           int64_t count) {
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  if (error || offset < 0 || bytes > size || offset > size - bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has no ", bytes, " bytes from byte ", offset, " on"));
  }
  auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(count));
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset);
  file.read(reinterpret_cast<char*>(values->data()), bytes);
  if (!file) return absl::PermissionDeniedError(absl::StrCat("'", path, "' cannot be read"));
  return std::shared_ptr<const std::vector<float>>(std::move(values));
}

}  // namespace partita
