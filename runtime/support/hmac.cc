#include "runtime/support/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>

#include "graph/support/check.h"

namespace partita {
namespace {

const unsigned char* BytesOf(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  std::string digest = RandomBytes(kDigestBytes);
  unsigned char made[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), BytesOf(text), text.size(), made,
           &size) != nullptr &&
      size == kDigestBytes) {
    digest.assign(reinterpret_cast<const char*>(made), size);
  }
  return digest;
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(size_t bytes) {
  std::string made(bytes, '\0');
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = getrandom(made.data() + at, bytes - at, 0);
    CHECK(got > 0 || errno == EINTR) << "the system has no random bytes";
    if (got > 0) at += static_cast<size_t>(got);
  }
  return made;
}

void Wipe(char* secret, size_t bytes) { OPENSSL_cleanse(secret, bytes); }

void Wipe(std::string& secret) {
  Wipe(secret.data(), secret.size());
  secret.clear();
}

}  // namespace partita
