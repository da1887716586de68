#include "runtime/train/data/synthetic_digits.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "runtime/train/data/idx.h"

namespace partita {
namespace {

constexpr int kDigits = 10;

struct Point {
  float x, y;
};

// The pen's way for each digit in a box 10 wide and 14 high, y downwards.
constexpr Point k0[] = {{5, 0},     {8, 1.5f}, {10, 5}, {10, 9},   {8, 12.5f}, {5, 14},
                        {2, 12.5f}, {0, 9},    {0, 5},  {2, 1.5f}, {5, 0}};
constexpr Point k1[] = {{2, 3}, {5, 0}, {5, 14}};
constexpr Point k2[] = {{0, 4}, {1, 1}, {5, 0}, {9, 1}, {10, 4}, {8, 7}, {0, 14}, {10, 14}};
constexpr Point k3[] = {{0, 2}, {4, 0},      {8, 1},  {9.5f, 3.5f}, {8, 6}, {4, 7},
                        {8, 8}, {10, 10.5f}, {8, 13}, {4, 14},      {0, 12}};
constexpr Point k4[] = {{7, 14}, {7, 0}, {0, 9}, {10, 9}};
constexpr Point k5[] = {{9, 0},   {1, 0},  {0.5f, 6}, {5, 5},    {9, 7},
                        {10, 10}, {8, 13}, {4, 14},   {0, 12.5f}};
constexpr Point k6[] = {{8, 0},  {3, 3},   {0.5f, 8}, {1, 12}, {4, 14},
                        {8, 13}, {10, 10}, {8, 7.5f}, {4, 7},  {1, 9}};
constexpr Point k7[] = {{0, 0}, {10, 0}, {4, 14}};
constexpr Point k8[] = {{5, 7},       {1.5f, 5.5f}, {1, 2.5f},    {5, 0},     {9, 2.5f},
                        {8.5f, 5.5f}, {5, 7},       {9.5f, 9.5f}, {9.5f, 12}, {5, 14},
                        {0.5f, 12},   {0.5f, 9.5f}, {5, 7}};
constexpr Point k9[] = {{9.5f, 4.5f}, {8, 1},       {5, 0},       {1.5f, 1.5f}, {0.5f, 4.5f},
                        {2, 7},       {5.5f, 7.5f}, {9.5f, 4.5f}, {9, 9},       {6, 14}};

constexpr std::span<const Point> kStrokes[10] = {k0, k1, k2, k3, k4, k5, k6, k7, k8, k9};

// A sample's random words, one after the other.
class Dice {
 public:
  Dice(uint64_t seed, DataSplit split, int64_t index)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, split == DataSplit::kTrain ? 1u : 2u, static_cast<uint32_t>(index),
                 static_cast<uint32_t>(static_cast<uint64_t>(index) >> 32)} {}

  uint32_t Word() {
    if (used_ == 4) {
      words_ = Philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return words_[used_++];
  }
  float Between(float low, float high) { return low + (high - low) * UnitFloat(Word()); }

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> words_{};
  size_t used_ = 4;
};

// The corners in pixels: wobbled, scaled, sheared, turned, shifted.
std::vector<Point> PlaceStroke(std::span<const Point> stroke, Dice& dice) {
  const float wide = dice.Between(0.9f, 1.4f), high = dice.Between(1.05f, 1.45f);
  const float shear = dice.Between(-0.25f, 0.25f);
  const float t = dice.Between(-0.122f, 0.122f);  // tangent of half the angle
  const float cosine = (1 - t * t) / (1 + t * t), sine = 2 * t / (1 + t * t);
  const float middle_x = 13.5f + dice.Between(-2.5f, 2.5f);
  const float middle_y = 13.5f + dice.Between(-2.5f, 2.5f);
  std::vector<Point> placed;
  for (const Point& corner : stroke) {
    const float y = high * (corner.y - 7 + dice.Between(-0.8f, 0.8f));
    const float x = wide * (corner.x - 5 + dice.Between(-0.8f, 0.8f)) - shear * y;
    placed.push_back({middle_x + cosine * x - sine * y, middle_y + sine * x + cosine * y});
  }
  return placed;
}

float SquaredDistance(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float length = dx * dx + dy * dy;
  const float along = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
  const float t = std::clamp(along, 0.f, 1.f);
  const float ex = p.x - a.x - t * dx, ey = p.y - a.y - t * dy;
  return ex * ex + ey * ey;
}

// Lowers the squared distances of the pixels near the line from a to b.
void MeetLine(Point a, Point b, float reach, std::span<float> distances) {
  const auto low = [&](float u, float v) {
    return static_cast<int64_t>(std::clamp(std::min(u, v) - reach, 0.f, kDigitSide - 1.f));
  };
  const auto high = [&](float u, float v) {
    return static_cast<int64_t>(std::clamp(std::max(u, v) + reach + 1, 0.f, kDigitSide - 1.f));
  };
  for (int64_t y = low(a.y, b.y); y <= high(a.y, b.y); ++y) {
    for (int64_t x = low(a.x, b.x); x <= high(a.x, b.x); ++x) {
      float& distance = distances[static_cast<size_t>(y * kDigitSide + x)];
      const Point pixel{static_cast<float>(x), static_cast<float>(y)};
      distance = std::min(distance, SquaredDistance(pixel, a, b));
    }
  }
}

class DigitsSource : public DataSource {
 public:
  DigitsSource(const SyntheticDigitsOptions& options, SampleShape shape, PixelNormaliser normaliser)
      : options_(options), shape_(std::move(shape)), normaliser_(std::move(normaliser)) {}

  int64_t size() const override { return options_.size; }
  const SampleShape& shape() const override { return shape_; }
  int classes() const override { return options_.classes; }

  absl::Status Read(int64_t index, int64_t /*epoch*/, std::span<float> x,
                    int32_t* label) const override {
    DigitPixels pixels;
    *label = DrawDigit(options_.seed, options_.split, index, &pixels);
    const auto& table = normaliser_.table(0);
    std::ranges::transform(pixels, x.begin(), [&](uint8_t pixel) { return table[pixel]; });
    return absl::OkStatus();
  }

  std::string Describe() const override {
    return absl::StrCat("synthetic digits, seed ", options_.seed, ": ", size(), " samples of ",
                        shape_.ToString(), ", ", classes(), " classes");
  }

 private:
  SyntheticDigitsOptions options_;
  SampleShape shape_;
  PixelNormaliser normaliser_;
};

absl::Status WriteSplit(const std::string& stem, DataSplit split, int64_t samples, uint64_t seed) {
  std::vector<uint8_t> images, labels;
  images.reserve(static_cast<size_t>(samples * kDigitSide * kDigitSide));
  for (int64_t i = 0; i < samples; ++i) {
    DigitPixels pixels;
    labels.push_back(static_cast<uint8_t>(DrawDigit(seed, split, i, &pixels)));
    images.insert(images.end(), pixels.begin(), pixels.end());
  }
  const int64_t dims[] = {samples, kDigitSide, kDigitSide};
  RETURN_IF_ERROR(WriteIdx(stem + "-images-idx3-ubyte", dims, images));
  return WriteIdx(stem + "-labels-idx1-ubyte", {dims, 1}, labels);
}

}  // namespace

int32_t DrawDigit(uint64_t seed, DataSplit split, int64_t index, DigitPixels* pixels) {
  Dice turn(seed ^ 0x6469676974u, split, index / 10);
  const int32_t label = static_cast<int32_t>((index + turn.Word() % kDigits) % kDigits);
  Dice dice(seed, split, index);
  const std::vector<Point> stroke = PlaceStroke(kStrokes[label], dice);
  const float radius = dice.Between(0.8f, 1.7f);
  std::array<float, kDigitSide * kDigitSide> distances;
  distances.fill(1e6f);
  for (size_t i = 0; i + 1 < stroke.size(); ++i) {
    MeetLine(stroke[i], stroke[i + 1], radius + 1, distances);
  }
  const float ink = dice.Between(170, 255);
  for (size_t i = 0; i < pixels->size(); ++i) {
    const float cover = std::clamp(radius + 0.5f - std::sqrt(distances[i]), 0.f, 1.f);
    const float speckle = cover > 0 || dice.Word() % 16 == 0 ? dice.Between(-40, 40) : 0;
    (*pixels)[i] = static_cast<uint8_t>(std::clamp(cover * ink + speckle, 0.f, 255.f));
  }
  return label;
}

absl::StatusOr<std::unique_ptr<DataSource>> MakeSyntheticDigitsSource(
    const SyntheticDigitsOptions& options) {
  const std::string what = "synthetic_digits";
  ASSIGN_OR_RETURN(SampleShape shape,
                   DeliveredShape({{1, kDigitSide, kDigitSide}}, options.shape, what));
  SyntheticDigitsOptions filled = options;
  RETURN_IF_ERROR(CheckClassCount(kDigits, options.classes, what, "other data"));
  filled.classes = kDigits;
  if (options.size < 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, " of ", options.size, " samples"));
  }
  if (options.size == 0) filled.size = options.split == DataSplit::kTrain ? 60'000 : 10'000;
  const bool given = !options.statistics.mean.empty() || !options.statistics.std.empty();
  ASSIGN_OR_RETURN(
      PixelNormaliser normaliser,
      PixelNormaliser::Create(1, given ? options.statistics : MnistStatistics(), what));
  return std::make_unique<DigitsSource>(filled, std::move(shape), std::move(normaliser));
}

absl::Status WriteSyntheticDigitsIdx(const std::string& folder, int64_t train_samples,
                                     int64_t test_samples, uint64_t seed) {
  RETURN_IF_ERROR(WriteSplit(folder + "/train", DataSplit::kTrain, train_samples, seed));
  return WriteSplit(folder + "/t10k", DataSplit::kEval, test_samples, seed);
}

}  // namespace partita
