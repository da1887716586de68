#include "runtime/train/data/image.h"

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/train/data/jpeg.h"
#include "runtime/train/data/png.h"

namespace partita {
namespace {

struct ImageFormat {
  absl::string_view begins;  // first bytes of its files
  absl::StatusOr<Image> (*decode)(std::span<const std::byte>, const DecodeOptions&,
                                  const std::string&);
};

constexpr std::array<ImageFormat, 2> kFormats = {{
    {"\xff\xd8", DecodeJpeg},
    {"\x89PNG\r\n\x1a\n", DecodePng},
}};

constexpr size_t kBytesShown = 8;

}  // namespace

absl::StatusOr<Image> DecodeImage(std::span<const std::byte> bytes, const DecodeOptions& options,
                                  const std::string& path) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const ImageFormat& format : kFormats) {
    if (absl::StartsWith(text, format.begins)) return format.decode(bytes, options, path);
  }
  return absl::DataLossError(absl::StrCat(
      "'", path, "' is neither JPEG nor PNG: it ",
      text.empty() ? "is empty"
                   : absl::StrCat("begins with the bytes ",
                                  absl::BytesToHexString(text.substr(0, kBytesShown)))));
}

}  // namespace partita
