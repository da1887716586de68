#include "runtime/train/data/idx.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/support/file.h"
#include "graph/support/mapped_file.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr uint8_t kUnsignedByte = 8;
constexpr size_t kMaxRank = 8;

struct Tensor {
  MappedFile file;
  std::vector<int64_t> dims;
  const uint8_t* elements;
};

absl::StatusOr<Tensor> OpenIdx(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<IdxHeader> parsed = ParseIdx(file.bytes(), path);
  RETURN_IF_ERROR(file.Check());
  ASSIGN_OR_RETURN(IdxHeader header, std::move(parsed));
  const auto* elements = reinterpret_cast<const uint8_t*>(
      file.bytes().subspan(static_cast<size_t>(header.begin)).data());
  return Tensor{std::move(file), std::move(header.dims), elements};
}

// A file of images and the one of their labels.
struct ImagesAndLabels {
  std::string path;  // of the images
  Tensor images, labels;
};

// What the source makes of each image and label.
struct Delivery {
  SampleShape shape;
  int64_t channels;
  int classes;
  int labelled_classes;
};

class IdxSource : public DataSource {
 public:
  IdxSource(ImagesAndLabels files, Delivery delivery, PixelNormaliser normaliser)
      : files_(std::move(files)),
        delivery_(std::move(delivery)),
        normaliser_(std::move(normaliser)) {}

  int64_t size() const override { return files_.images.dims[0]; }
  const SampleShape& shape() const override { return delivery_.shape; }
  int classes() const override { return delivery_.classes; }
  int labelled_classes() const override { return delivery_.labelled_classes; }

  absl::Status Read(int64_t index, int64_t /*epoch*/, std::span<float> x,
                    int32_t* label) const override {
    const int64_t elements = shape().elements();
    const int64_t plane = elements / delivery_.channels;
    const uint8_t* pixels = files_.images.elements + index * elements;
    for (int64_t c = 0; c < delivery_.channels; ++c) {
      const auto& table = normaliser_.table(c);
      std::transform(pixels + c * plane, pixels + (c + 1) * plane, x.begin() + c * plane,
                     [&](uint8_t pixel) { return table[pixel]; });
    }
    *label = files_.labels.elements[index];
    RETURN_IF_ERROR(files_.images.file.Check());
    return files_.labels.file.Check();
  }

  std::string Describe() const override {
    return absl::StrCat("IDX images '", files_.path, "': ", size(), " samples of ",
                        shape().ToString(), ", ", classes(), " classes");
  }

 private:
  ImagesAndLabels files_;
  Delivery delivery_;
  PixelNormaliser normaliser_;
};

absl::Status CheckPair(const Tensor& images, const Tensor& labels, const IdxOptions& options) {
  if (images.dims.size() < 2 || images.dims.size() > 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.images, "' has ", images.dims.size(),
                     " dimensions; images have 3 (or 2 for features, 4 with channels)"));
  }
  if (labels.dims.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", options.labels, "' has ", labels.dims.size(), " dimensions; labels have 1"));
  }
  if (images.dims[0] != labels.dims[0]) {
    return absl::InvalidArgumentError(absl::StrCat("'", options.images, "' has ", images.dims[0],
                                                   " images, '", options.labels, "' has ",
                                                   labels.dims[0], " labels"));
  }
  if (images.dims[0] > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", options.images, "' has no images"));
}

}  // namespace

absl::StatusOr<IdxHeader> ParseIdx(std::span<const std::byte> file, const std::string& path) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not an IDX file: ", what));
  };
  const auto byte = [&](size_t i) { return std::to_integer<uint8_t>(file[i]); };
  if (file.size() < 4) return bad(absl::StrCat("it has ", file.size(), " bytes"));
  if (byte(0) == 0x1f && byte(1) == 0x8b) return bad("it is compressed; unpack it with gunzip");
  if (byte(0) != 0 || byte(1) != 0) return bad("it does not begin with two zero bytes");
  if (byte(2) != kUnsignedByte) {
    return bad(absl::StrCat("its element type is ", byte(2), "; 8 (unsigned byte) is read"));
  }
  const size_t rank = byte(3);
  if (rank == 0 || rank > kMaxRank) return bad(absl::StrCat("it has ", rank, " dimensions"));
  IdxHeader header;
  header.begin = static_cast<int64_t>(4 + 4 * rank);
  if (static_cast<int64_t>(file.size()) < header.begin) return bad("it ends within its header");
  int64_t elements = 1;
  bool overflow = false;
  for (size_t d = 0; d < rank; ++d) {
    int64_t extent = 0;
    for (size_t i = 0; i < 4; ++i) extent = extent * 256 + byte(4 + 4 * d + i);
    header.dims.push_back(extent);
    overflow = overflow || __builtin_mul_overflow(elements, extent, &elements);
  }
  const int64_t found = static_cast<int64_t>(file.size()) - header.begin;
  if (!overflow && elements == found) return header;
  return bad(absl::StrCat("it announces ", overflow ? "more than 2^63" : absl::StrCat(elements),
                          " elements and has ", found));
}

absl::Status WriteIdx(const std::string& path, std::span<const int64_t> dims,
                      std::span<const uint8_t> elements) {
  std::string header = {0, 0, static_cast<char>(kUnsignedByte), static_cast<char>(dims.size())};
  for (int64_t extent : dims) {
    for (int shift = 24; shift >= 0; shift -= 8)
      header.push_back(static_cast<char>(extent >> shift));
  }
  const absl::string_view pieces[] = {
      header, absl::string_view(reinterpret_cast<const char*>(elements.data()), elements.size())};
  return WriteFileAtomically(path, pieces);
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenIdxSource(const IdxOptions& options) {
  ASSIGN_OR_RETURN(Tensor images, OpenIdx(options.images));
  ASSIGN_OR_RETURN(Tensor labels, OpenIdx(options.labels));
  RETURN_IF_ERROR(CheckPair(images, labels, options));
  SampleShape found{{images.dims.begin() + 1, images.dims.end()}};
  const int64_t channels = found.dims.size() == 3 ? found.dims[0] : 1;
  if (found.dims.size() == 2) found.dims.insert(found.dims.begin(), 1);
  const std::string what = absl::StrCat("'", options.images, "'");
  ASSIGN_OR_RETURN(SampleShape shape, DeliveredShape(found, options.shape, what));
  const uint8_t* largest = std::max_element(labels.elements, labels.elements + labels.dims[0]);
  const LargestLabel found_label{.label = *largest, .sample = largest - labels.elements};
  RETURN_IF_ERROR(labels.file.Check());
  ASSIGN_OR_RETURN(const int classes, DeliveredClasses(found_label, options.classes,
                                                       absl::StrCat("'", options.labels, "'")));
  PixelStatistics statistics = options.statistics;
  if (statistics.mean.empty() && statistics.std.empty()) {
    statistics = channels == 1 ? MnistStatistics() : ImageNetStatistics(channels);
  }
  ASSIGN_OR_RETURN(PixelNormaliser normaliser, PixelNormaliser::Create(channels, statistics, what));
  return std::make_unique<IdxSource>(
      ImagesAndLabels{options.images, std::move(images), std::move(labels)},
      Delivery{std::move(shape), channels, classes, static_cast<int>(found_label.label) + 1},
      std::move(normaliser));
}

absl::StatusOr<IdxPaths> FindIdxFiles(const std::string& path, DataSplit split) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    std::string labels = path;
    for (const auto& [from, to] : {std::pair("images", "labels"), std::pair("idx3", "idx1"),
                                   std::pair("idx2", "idx1"), std::pair("idx4", "idx1")}) {
      const size_t at = labels.rfind(from);
      if (at != std::string::npos) labels.replace(at, std::string(from).size(), to);
    }
    if (labels != path) return IdxPaths{path, labels};
    return absl::NotFoundError(absl::StrCat(
        "'", path, "' does not say 'images' in its name, so its labels are not found"));
  }
  const std::string stem = split == DataSplit::kTrain ? "train" : "t10k";
  for (const char* joint : {"-", "."}) {
    IdxPaths paths{absl::StrCat(path, "/", stem, "-images", joint, "idx3-ubyte"),
                   absl::StrCat(path, "/", stem, "-labels", joint, "idx1-ubyte")};
    if (std::filesystem::exists(paths.images, ignored)) return paths;
    if (std::filesystem::exists(paths.images + ".gz", ignored)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", paths.images, ".gz' is compressed; unpack it with gunzip"));
    }
  }
  return absl::NotFoundError(absl::StrCat("'", path, "' has no '", stem, "-images-idx3-ubyte'"));
}

}  // namespace partita
