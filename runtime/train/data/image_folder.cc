#include "runtime/train/data/image_folder.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/mapped_file.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "runtime/train/data/image.h"
#include "runtime/train/data/image_listing.h"
#include "runtime/train/data/image_ops.h"

namespace partita {
namespace {

constexpr int64_t kMaxSide = 16384;

// What is cut from, for a target extent (rule 2).
int64_t CoverOf(int64_t target) { return (target * 256 + 112) / 224; }

// Uniform in [0, n).
int64_t Below(int64_t n, uint32_t word) {
  return static_cast<int64_t>(uint64_t{word} * static_cast<uint64_t>(n) >> 32);
}

class ImageFolderSource : public DataSource {
 public:
  ImageFolderSource(const ImageFolderOptions& options, ImageListing listing,
                    PixelNormaliser normaliser, int classes)
      : options_(options),
        listing_(std::move(listing)),
        normaliser_(std::move(normaliser)),
        classes_(classes),
        channels_(options.shape.dims[0]),
        height_(options.shape.dims[1]),
        width_(options.shape.dims[2]) {
    if (options.cache == DataCache::kMemory) cache_.emplace(size(), options.cache_bytes);
  }

  int64_t size() const override { return static_cast<int64_t>(listing_.items.size()); }
  const SampleShape& shape() const override { return options_.shape; }
  int classes() const override { return classes_; }

  absl::Status Read(int64_t index, int64_t epoch, std::span<float> x,
                    int32_t* label) const override {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Image> image, Resized(index));
    CropAndNormalise(*image, WindowOf(*image, index, epoch), normaliser_, x);
    *label = listing_.items[static_cast<size_t>(index)].label;
    return absl::OkStatus();
  }

  std::string Describe() const override {
    return absl::StrCat("images of '", options_.root, "', ",
                        options_.split == DataSplit::kTrain ? "training" : "evaluation",
                        " split: ", size(), " samples of ", shape().ToString(), ", ", classes(),
                        " classes");
  }

 private:
  // The image after rule 2, from the cache or the file.
  absl::StatusOr<std::shared_ptr<const Image>> Resized(int64_t index) const {
    if (cache_) {
      if (auto kept = cache_->Get(index)) return kept;
    }
    const std::string& path = listing_.items[static_cast<size_t>(index)].path;
    ASSIGN_OR_RETURN(Image fresh, DecodeAndResize(path));
    auto image = std::make_shared<const Image>(std::move(fresh));
    if (cache_)
      cache_->Put(index, image, static_cast<int64_t>(image->pixels.size() + sizeof(Image)));
    return std::shared_ptr<const Image>(std::move(image));
  }

  absl::StatusOr<Image> DecodeAndResize(const std::string& path) const {
    const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
    // One absent or unreadable file is a broken sample, not a broken set.
    if (!file.ok()) return absl::DataLossError(file.status().message());
    const int64_t cover_width = CoverOf(width_), cover_height = CoverOf(height_);
    const absl::StatusOr<Image> decoded =
        DecodeImage(file->bytes(), {channels_, cover_width, cover_height}, path);
    if (const absl::Status whole = file->Check(); !whole.ok()) {
      return absl::DataLossError(whole.message());
    }
    ASSIGN_OR_RETURN(const Image image, decoded);
    const double scale =
        std::max(static_cast<double>(cover_width) / static_cast<double>(image.width),
                 static_cast<double>(cover_height) / static_cast<double>(image.height));
    const int64_t width =
        std::max<int64_t>(cover_width, std::llround(scale * static_cast<double>(image.width)));
    const int64_t height =
        std::max<int64_t>(cover_height, std::llround(scale * static_cast<double>(image.height)));
    if (width > kMaxImagePixels / height) {
      return absl::DataLossError(absl::StrCat("'", path, "' of ", image.width, " x ", image.height,
                                              " pixels is too long and narrow"));
    }
    return Resize(image, width, height);
  }

  // Rule 3.
  Window WindowOf(const Image& image, int64_t index, int64_t epoch) const {
    Window window{.left = (image.width - width_) / 2,
                  .top = (image.height - height_) / 2,
                  .width = width_,
                  .height = height_};
    if (options_.split != DataSplit::kTrain || !options_.augment) return window;
    const auto words = Philox(
        {static_cast<uint32_t>(index), static_cast<uint32_t>(static_cast<uint64_t>(index) >> 32),
         static_cast<uint32_t>(epoch), static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32)},
        {static_cast<uint32_t>(options_.seed), static_cast<uint32_t>(options_.seed >> 32)});
    window.left = Below(image.width - width_ + 1, words[0]);
    window.top = Below(image.height - height_ + 1, words[1]);
    window.mirrored = (words[2] & 1) != 0;
    return window;
  }

  ImageFolderOptions options_;
  ImageListing listing_;
  PixelNormaliser normaliser_;
  int classes_;
  int64_t channels_, height_, width_;
  mutable std::optional<SampleCache<Image>> cache_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenImageFolder(const ImageFolderOptions& options) {
  ImageFolderOptions filled = options;
  if (filled.shape.dims.empty()) filled.shape.dims = {3, 224, 224};
  const std::vector<int64_t>& dims = filled.shape.dims;
  const bool fits = dims.size() == 3 && (dims[0] == 1 || dims[0] == 3) && dims[1] > 0 &&
                    dims[2] > 0 && dims[1] <= kMaxSide && dims[2] <= kMaxSide;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("the images of '", options.root,
                                                   "' can be made 3 or 1 x height x width, not ",
                                                   filled.shape.ToString()));
  }
  ASSIGN_OR_RETURN(ImageListing listing, ListImages(options.root, options.split));
  const std::string what = absl::StrCat("'", options.root, "'");
  const auto classes = static_cast<int64_t>(listing.classes.size());
  RETURN_IF_ERROR(CheckClassCount(
      classes, options.classes, absl::StrCat(what, ", ", listing.classes_from),
      "the folder that the model is for; to train on some of its classes, name all of them in "
      "wnids.txt, a line each"));
  if (filled.statistics.mean.empty() && filled.statistics.std.empty()) {
    filled.statistics = ImageNetStatistics(dims[0]);
  }
  ASSIGN_OR_RETURN(PixelNormaliser normaliser,
                   PixelNormaliser::Create(dims[0], filled.statistics, what));
  return std::make_unique<ImageFolderSource>(filled, std::move(listing), std::move(normaliser),
                                             static_cast<int>(classes));
}

}  // namespace partita
