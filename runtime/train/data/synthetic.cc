#include "runtime/train/data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Streams of random words: the second counter word.
enum Stream : uint32_t { kPattern, kLabel, kTrainNoise, kEvalNoise };

// Of all patterns together.
constexpr int64_t kMaxCells = int64_t{1} << 25;

// The sum of a word's four bytes, shifted and scaled to mean 0 and variance 1: nearly normal.
float NearNormal(uint32_t word) {
  const int sum =
      static_cast<int>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));
  constexpr float kScale = 0.0067658f;  // 1 / sqrt(4 (256^2 - 1) / 12)
  return static_cast<float>(sum - 510) * kScale;
}

// The same from the four nibbles of each half of a word: coarser, two values for the price of one.
std::array<float, 2> TwoNearNormals(uint32_t word) {
  const uint32_t pairs = (word & 0x0f0f0f0f) + (word >> 4 & 0x0f0f0f0f);
  const uint32_t sums = (pairs & 0x00ff00ff) + (pairs >> 8 & 0x00ff00ff);
  constexpr float kScale = 0.10846523f;  // 1 / sqrt(4 (16^2 - 1) / 12)
  return {static_cast<float>(static_cast<int>(sums & 0xffff) - 30) * kScale,
          static_cast<float>(static_cast<int>(sums >> 16) - 30) * kScale};
}

// A sample as images: channels of height x width, each covered by cells.
struct Geometry {
  explicit Geometry(const std::vector<int64_t>& dims)
      : width(dims.back()), height(dims.size() >= 2 ? dims[dims.size() - 2] : 1) {
    for (size_t d = 0; d + 2 < dims.size(); ++d) channels *= dims[d];
    across = std::min<int64_t>(width, dims.size() == 1 ? 256 : 8);
    down = std::min<int64_t>(height, 8);
  }
  int64_t width, height, channels = 1;
  int64_t across, down;  // cells
};

class SyntheticSource : public DataSource {
 public:
  explicit SyntheticSource(const SyntheticOptions& options)
      : options_(options),
        geometry_(options.shape.dims),
        key_{static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)} {
    const int64_t plane = geometry_.across * geometry_.down;
    const int64_t cells = geometry_.channels * plane;
    const float pattern = 1.0f / std::sqrt(1 + options_.noise * options_.noise);
    noise_ = options_.noise * pattern;
    for (uint64_t label = 0; label < static_cast<uint64_t>(options_.classes); ++label) {
      for (int64_t i = 0; i < cells; ++i) {
        const auto words = Words(kPattern, label, static_cast<uint32_t>(i));
        const auto whole =
            Words(kPattern, label | uint64_t{1} << 63, static_cast<uint32_t>(i / plane));
        constexpr float kHalf = 0.70710678f;  // of the variance to each of the two values
        patterns_.push_back(pattern * kHalf * (NearNormal(words[0]) + NearNormal(whole[0])));
      }
    }
  }

  int64_t size() const override { return options_.size; }
  const SampleShape& shape() const override { return options_.shape; }
  int classes() const override { return options_.classes; }

  absl::Status Read(int64_t index, int64_t /*epoch*/, std::span<float> x,
                    int32_t* label) const override {
    *label = Label(index);
    const auto& [width, height, channels, across, down] = geometry_;
    const float* pattern = patterns_.data() + *label * channels * across * down;
    auto out = x.begin();
    for (int64_t c = 0; c < channels; ++c, pattern += across * down) {
      for (int64_t h = 0; h < height; ++h) {
        const float* row = pattern + h * down / height * across;
        for (int64_t cell = 0; cell < across; ++cell) {
          // Columns w with w * across / width == cell.
          const int64_t begin = (cell * width + across - 1) / across;
          const int64_t end = ((cell + 1) * width + across - 1) / across;
          out = std::fill_n(out, end - begin, row[cell]);
        }
      }
    }
    AddNoise(index, x);
    return absl::OkStatus();
  }

  std::string Describe() const override {
    return absl::StrCat("synthetic patterns, seed ", options_.seed, ": ", size(), " samples of ",
                        shape().ToString(), ", ", classes(), " classes");
  }

 private:
  std::array<uint32_t, 4> Words(Stream stream, uint64_t index, uint32_t block) const {
    return Philox({block, stream, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)},
                  key_);
  }

  // Within each run of `classes` samples, a rotation of 0, 1, ...
  int32_t Label(int64_t index) const {
    const int64_t run = index / options_.classes;
    const int64_t turn = Words(kLabel, static_cast<uint64_t>(run), 0)[0] % options_.classes;
    return static_cast<int32_t>((index + turn) % options_.classes);
  }

  void AddNoise(int64_t index, std::span<float> x) const {
    const Stream stream = options_.split == DataSplit::kTrain ? kTrainNoise : kEvalNoise;
    for (size_t i = 0; i < x.size(); i += 8) {
      const auto words = Words(stream, static_cast<uint64_t>(index), static_cast<uint32_t>(i / 8));
      const size_t count = std::min<size_t>(8, x.size() - i);
      for (size_t k = 0; k < count; ++k) x[i + k] += noise_ * TwoNearNormals(words[k / 2])[k % 2];
    }
  }

  SyntheticOptions options_;
  Geometry geometry_;
  std::array<uint32_t, 2> key_;
  float noise_;
  std::vector<float> patterns_;  // [classes, channels, cells down, cells across]
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> MakeSyntheticSource(const SyntheticOptions& options) {
  RETURN_IF_ERROR(CheckSampleShape(options.shape, "synthetic data"));
  if (options.classes < 1 || options.size < 0 || !(options.noise >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "synthetic data of ", options.classes, " classes, ", options.size, " samples, noise ",
        options.noise, "; a positive number of classes is wanted"));
  }
  SyntheticOptions filled = options;
  if (filled.size == 0) filled.size = options.split == DataSplit::kTrain ? 51'200 : 10'240;
  const Geometry geometry(options.shape.dims);
  const int64_t cells = geometry.channels * geometry.across * geometry.down;
  if (cells > kMaxCells / options.classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("synthetic data of shape ", options.shape.ToString(), " and ", options.classes,
                     " classes would need patterns of ", cells, " values each; ", kMaxCells,
                     " in all are allowed"));
  }
  return std::make_unique<SyntheticSource>(filled);
}

}  // namespace partita
