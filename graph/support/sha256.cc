#include "graph/support/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "graph/support/error_category.h"

namespace partita {

absl::StatusOr<std::string> Sha256Of(absl::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1) {
    return MemoryError("no memory for a SHA-256");
  }
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace partita
