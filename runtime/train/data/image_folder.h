#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/train/data/data_source.h"
#include "runtime/train/data/pixel_normaliser.h"
#include "runtime/train/data/sample_cache.h"

namespace partita {

struct ImageFolderOptions {
  std::string root = {};  // layouts: image_listing.h
  DataSplit split = DataSplit::kTrain;
  SampleShape shape = {};           // 3 or 1 x height x width; empty: 3x224x224
  int classes = 0;                  // classes that the tree has to have; 0: any number
  PixelStatistics statistics = {};  // empty: ImageNet's
  bool augment = true;              // augmentation of the training split
  uint64_t seed = 0;                // seed of the augmentation
  DataCache cache = DataCache::kNone;
  int64_t cache_bytes = int64_t{8} << 30;
};

// Images from a tree of JPEG and PNG files, made height x width (h x w) by these rules:
//   1. decode (image.h), a JPEG scaled down by 1/2, 1/4 or 1/8 in the decoder where the picture
//      stays at least as large as rule 2 needs;
//   2. resize (triangle filter, aspect kept, extents rounded to nearest) to the smallest size that
//      covers round(256/224 h) x round(256/224 w): for square targets that is the rule for the
//      shorter side;
//   3. training with `augment`: cut h x w at a place drawn uniformly, then mirror left-right with
//      probability 1/2; both drawn by Philox from (seed, epoch, index); otherwise: cut the centre
//      (rounded towards the top left);
//   4. normalise: (v/255 - mean) / std per channel, red, green, blue.
// The cache keeps what rule 2 makes, as bytes, so augmentation still varies. Only file names are
// read when the source is opened; a broken image is found, as DataLoss with its name, when it is
// read.
absl::StatusOr<std::unique_ptr<DataSource>> OpenImageFolder(const ImageFolderOptions& options);

}  // namespace partita
