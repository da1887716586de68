#include "runtime/train/data/safetensors_checksums.h"

#include "absl/strings/str_cat.h"
#include "graph/support/sha256.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr size_t kDigits = 64;

std::string KeyOf(const std::string& tensor) { return absl::StrCat(kChecksumKey, "/", tensor); }

absl::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Where the digits of the whole begin in a header's text; npos if they are not there. Quotes within
// a name are written with a backslash, so no name looks like this key.
size_t DigitsIn(absl::string_view header) {
  const std::string key = absl::StrCat("\"", kChecksumKey, "\":\"");
  const size_t at = header.find(key);
  if (at == absl::string_view::npos || header.size() - at - key.size() < kDigits) {
    return absl::string_view::npos;
  }
  return at + key.size();
}

absl::StatusOr<std::string> DigestOfHeader(std::string header, size_t digits) {
  header.replace(digits, kDigits, kDigits, '0');
  return Sha256Of(header);
}

absl::Status Damaged(const SafetensorsFile& file, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", file.path(), "' is damaged: ", what,
      ". Take another copy, or an earlier checkpoint; a program that changed the file has to leave "
      "the metadata '",
      kChecksumKey, "' away"));
}

}  // namespace

absl::Status AddChecksums(std::span<const TensorToWrite* const> tensors,
                          std::map<std::string, std::string>& metadata) {
  metadata[kChecksumKey] = std::string(kDigits, '0');
  for (const TensorToWrite* tensor : tensors) {
    ASSIGN_OR_RETURN(metadata[KeyOf(tensor->name)], Sha256Of(Text(tensor->bytes)));
  }
  return absl::OkStatus();
}

absl::Status SealHeader(std::string& header) {
  const size_t digits = DigitsIn(header);
  if (digits == std::string::npos) return absl::InternalError("a header without its checksum");
  ASSIGN_OR_RETURN(const std::string digest, DigestOfHeader(header, digits));
  header.replace(digits, kDigits, digest);
  return absl::OkStatus();
}

absl::Status CheckChecksums(const ChecksummedFile& checked) {
  const auto& [file, header, sums] = checked;
  if (sums.empty()) return absl::OkStatus();
  const size_t digits = DigitsIn(header);
  const auto whole = sums.find(kChecksumKey);
  if (digits == absl::string_view::npos || whole == sums.end()) {
    return Damaged(file, "its header has checksums of tensors and none of itself");
  }
  ASSIGN_OR_RETURN(const std::string digest, DigestOfHeader(std::string(header), digits));
  if (whole->second != digest) {
    return Damaged(file, absl::StrCat("its header's checksum is ", digest.substr(0, 16),
                                      "..., wanted ", whole->second.substr(0, 16), "..."));
  }
  for (const auto& [name, entry] : file.tensors()) {
    const auto wanted = sums.find(KeyOf(name));
    if (wanted == sums.end()) {
      return Damaged(file, absl::StrCat("tensor '", name, "' has no checksum"));
    }
    ASSIGN_OR_RETURN(const auto bytes, file.Bytes(name));
    ASSIGN_OR_RETURN(const std::string found, Sha256Of(Text(bytes)));
    if (found == wanted->second) continue;
    return Damaged(file,
                   absl::StrCat("the checksum of tensor '", name, "' is ", found.substr(0, 16),
                                "..., wanted ", wanted->second.substr(0, 16), "..."));
  }
  return absl::OkStatus();
}

}  // namespace partita
