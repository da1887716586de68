#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/train/data/data_source.h"
#include "runtime/train/data/pixel_normaliser.h"

// The IDX format of MNIST (http://yann.lecun.com/exdb/mnist): two zero bytes, a type (8: unsigned
// byte, the only one read here), the number of dimensions, each dimension as four bytes big endian,
// then the elements row-major. A set is two such files: images [n, height, width] (or [n, channels,
// height, width], or [n, features]) and labels [n].

namespace partita {

// The first bytes of an IDX file. The elements begin at byte `begin` and end with the file.
struct IdxHeader {
  std::vector<int64_t> dims;
  int64_t begin = 0;
};

// Reads the header and checks that exactly the elements that it announces follow. InvalidArgument
// names `path`. Takes no memory but the dims.
absl::StatusOr<IdxHeader> ParseIdx(std::span<const std::byte> file, const std::string& path);

absl::Status WriteIdx(const std::string& path, std::span<const int64_t> dims,
                      std::span<const uint8_t> elements);

struct IdxOptions {
  std::string images = {};  // paths
  std::string labels = {};
  SampleShape shape = {};  // shape wanted; empty: as found, 1 x height x width for three dimensions
  int classes = 0;         // classes wanted; 0: largest label + 1
  PixelStatistics statistics = {};  // empty: MNIST's for one channel, ImageNet's for several
};

// Every byte normalised as in PixelNormaliser. The files stay mapped.
absl::StatusOr<std::unique_ptr<DataSource>> OpenIdxSource(const IdxOptions& options);

// The paths of the images and labels of a split below `path`: a folder with MNIST's file names
// (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-...; also with a dot for the last
// hyphen), or an images file itself, whose labels lie in the same folder. NotFound says which names
// were looked for.
struct IdxPaths {
  std::string images = {};
  std::string labels = {};
};
absl::StatusOr<IdxPaths> FindIdxFiles(const std::string& path, DataSplit split);

}  // namespace partita
