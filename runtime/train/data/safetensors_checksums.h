#pragma once

#include <map>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/train/data/safetensors.h"

namespace partita {

// Checksums in a safetensors file: SHA-256 digests in its metadata. "partita.sha256/NAME" is that
// of tensor NAME's bytes; "partita.sha256" that of the header and its length, taken while its own
// digits are 0. The header has every tensor's digest and place, and tensors cover all that follows
// it, so that one covers the whole file.

// The beginning of both keys.
inline constexpr char kChecksumKey[] = "partita.sha256";

// Adds the digests of tensors, and zeros where SealHeader puts that of the whole.
absl::Status AddChecksums(std::span<const TensorToWrite* const> tensors,
                          std::map<std::string, std::string>& metadata);

// `header`: its length in eight bytes and its text, of metadata from AddChecksums.
absl::Status SealHeader(std::string& header);

// Compares a file with what it says of itself. OK if it has no checksums at all; otherwise all have
// to be there. InvalidArgument naming the file and the first tensor whose bytes are others than
// were written.
struct ChecksummedFile {
  const SafetensorsFile& file;
  absl::string_view header;                        // header as SealHeader returns it
  const std::map<std::string, std::string>& sums;  // keyed by key
};
absl::Status CheckChecksums(const ChecksummedFile& checked);

}  // namespace partita
