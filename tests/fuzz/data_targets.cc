#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "graph/support/status_macros.h"
#include "runtime/train/data/idx.h"
#include "runtime/train/data/image.h"
#include "runtime/train/data/image_listing.h"
#include "runtime/train/data/open_data_source.h"
#include "runtime/train/data/words.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/runtime/data/jpeg_file.h"
#include "tests/runtime/data/png_file.h"

namespace partita {
namespace {

constexpr int64_t kMostSamples = 50;  // that are read of a source

std::string Idx(const std::vector<int64_t>& dims, uint8_t element) {
  int64_t elements = 1;
  for (const int64_t extent : dims) elements *= extent;
  const std::string path = Scratch() / "seed-idx";
  DemandOk(WriteIdx(path, dims, std::vector<uint8_t>(static_cast<size_t>(elements), element)),
           "an IDX file");
  return FileContent(path);
}

// Images, labels and the name that a user gives: of the folder with both, if it is empty, or of a
// file in it.
std::vector<std::string> IdxPairs() {
  std::vector<std::string> inputs;
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{4, 5, 5}, std::vector<int64_t>{3, 7},
        std::vector<int64_t>{2, 3, 4, 4}}) {
    inputs.push_back(JoinFiles({Idx(dims, 77), Idx({dims[0]}, 1)}));
  }
  const std::string images = Idx({4, 5, 5}, 77);
  inputs.push_back(JoinFiles({images, Idx({4}, 1), "train-images-idx3-ubyte"}));
  inputs.push_back(JoinFiles({images, Idx({4}, 1), "packed"}));
  inputs.push_back(JoinFiles({images, Idx({3}, 1)}));     // fewer labels than images
  inputs.push_back(JoinFiles({images, Idx({2, 2}, 1)}));  // labels with two dimensions
  inputs.push_back(JoinFiles({Idx({4}, 77), Idx({4}, 1)}));
  inputs.push_back(JoinFiles({Idx({0, 5, 5}, 77), Idx({0}, 1)}));
  return inputs;
}

absl::Status ReadIdx(const std::string& input) {
  const auto files = SplitFiles(input, 3);
  const auto header = ParseIdx(std::as_bytes(std::span(files[0])), "damaged");
  if (header.ok()) {
    int64_t elements = 1;
    for (const int64_t extent : header->dims) elements *= extent;
    Demand(elements == static_cast<int64_t>(files[0].size()) - header->begin,
           "elements beyond the file, or bytes behind them");
  }
  Scratch().Write("idx/train-images-idx3-ubyte", files[0]);
  Scratch().Write("idx/train-labels-idx1-ubyte", files[1]);
  std::string name = files[2].substr(0, 100);
  std::erase_if(name, [](char c) { return c == '/' || c == '\0'; });
  if (name == "packed") {
    Scratch().Write("packed/train-images-idx3-ubyte.gz", files[0]);
    return OpenDataSource({.spec = Scratch() / name}).status();
  }
  const std::string spec = name.empty() || name == ".." ? "idx" : "idx/" + name;
  ASSIGN_OR_RETURN(const auto source, OpenDataSource({.spec = Scratch() / spec}));
  return ReadSamples(*source);
}

// A picture in the inks of print.
std::string JpegOfInks(int width, int height) {
  std::vector<unsigned char> inks;
  for (int k = 0; k < width * height * 4; ++k) inks.push_back(static_cast<unsigned char>(k * 7));
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  void* encoder = tjInitCompress();
  Demand(tjCompress2(encoder, inks.data(), width, 0, height, TJPF_CMYK, &bytes, &size, TJSAMP_444,
                     90, 0) == 0,
         "a picture");
  const std::string result(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(encoder);
  return result;
}

std::vector<std::string> JpegImages() {
  return {MakeJpeg(24, 24, 77), MakeJpeg(3, 50, 200), MakeJpeg(160, 9, 1, 20), JpegOfInks(20, 10)};
}

std::vector<std::string> PngImages() {
  std::vector<std::string> images;
  for (const PngForm& form : AllPngForms()) {
    images.push_back(MakePng(12, 12, form, [](int x, int y, int channel) {
      return (x * 2749 + y * 8123 + channel * 20011) & 0xffff;
    }));
  }
  return images;
}

// Bytes, or the content of chunks, whose checksums are made anew, so that it is looked at.
std::string MutatePng(Mutator& mutator, const std::string& input, const std::string& other) {
  constexpr size_t kSignature = 8, kAround = 12;  // bytes before the chunks, and around a content
  if (mutator.Below(2) == 0 || input.size() < kSignature) return mutator.MutateBytes(input, other);
  std::string png = input.substr(0, kSignature);
  for (size_t at = kSignature; at + kAround <= input.size();) {
    size_t length = 0;
    for (size_t b = 0; b < 4; ++b) length = length * 256 + static_cast<uint8_t>(input[at + b]);
    std::string content = input.substr(at + 8, length);
    if (mutator.Below(3) == 0) content = mutator.MutateBytes(content, other);
    if (mutator.Below(20) != 0) png += PngChunk(input.substr(at + 4, 4), content);
    at += kAround + length;
  }
  return png;
}

absl::Status ReadImage(const std::string& input) {
  for (const int64_t channels : {1, 3}) {
    const DecodeOptions options{.channels = channels, .min_width = 5, .min_height = 5};
    ASSIGN_OR_RETURN(const Image image,
                     DecodeImage(std::as_bytes(std::span(input)), options, "damaged"));
    Demand(static_cast<int64_t>(image.pixels.size()) == image.width * image.height * channels,
           "an image of another size than it says");
  }
  return absl::OkStatus();
}

// Trees of images: with lists that are the input's, in folders of classes for each split or for
// both, with one split alone, and without classes.
constexpr const char* kTrees[] = {"tree", "folders", "flat", "half", "none"};

// wnids.txt and val_annotations.txt of the first tree; a third part names another tree.
std::vector<std::string> Lists() {
  std::vector<std::string> inputs = {
      JoinFiles({"n01\nn02\n", "val_0.JPEG\tn02\t0\t0\t62\t62\nval_1.JPEG\tn01\t3\t4\t9\t9\n"}),
      JoinFiles({"n02\r\nn01\r\n", "val_1.JPEG\tn02\nval_0.JPEG\tn02\n"}),
      JoinFiles({"n01", "val_0.JPEG n01"})};
  for (const char* tree : kTrees) inputs.push_back(JoinFiles({"n01\nn02", "", tree}));
  return inputs;
}

// Writes the images of the trees, once.
void PlantTrees() {
  static const bool kAll = [] {
    const std::string picture = MakeJpeg(16, 16, 9);
    for (const char* name :
         {"tree/train/n01/images/a.JPEG", "tree/train/n02/images/b.JPEG",
          "tree/val/images/val_0.JPEG", "tree/val/images/val_1.JPEG", "folders/train/n01/a.JPEG",
          "folders/train/n02/b.png", "folders/val/n02/c.JPEG", "flat/n01/a.JPEG", "flat/n02/b.JPEG",
          "half/train/n01/a.JPEG", "none/train/a.JPEG", "none/val/a.JPEG"}) {
      Scratch().Write(name, picture);
    }
    return true;
  }();
  Demand(kAll, "trees");
}

absl::Status ReadLists(const std::string& input) {
  PlantTrees();
  const auto files = SplitFiles(input, 3);
  Scratch().Write("tree/wnids.txt", files[0]);
  Scratch().Write("tree/val/val_annotations.txt", files[1]);
  const auto* tree = std::find(std::begin(kTrees), std::end(kTrees), files[2]);
  const std::string root = Scratch() / (tree == std::end(kTrees) ? "tree" : *tree);
  for (const DataSplit split : {DataSplit::kTrain, DataSplit::kEval}) {
    ASSIGN_OR_RETURN(const ImageListing listing, ListImages(root, split));
    Demand(!listing.items.empty(), "a listing without images");
    for (const ImageListing::Item& item : listing.items) {
      Demand(item.label >= 0 && static_cast<size_t>(item.label) < listing.classes.size(),
             "a label beyond the classes");
    }
    ASSIGN_OR_RETURN(const auto source,
                     OpenDataSource({.spec = root, .split = split, .shape = {{3, 8, 8}}}));
    RETURN_IF_ERROR(ReadSamples(*source));
  }
  return absl::OkStatus();
}

// A text and, as numbers, what the model takes of it: words and labels of a sample, how many words
// it knows, classes, and the seed of made-up ones.
std::vector<std::string> Texts() {
  const std::string text = "1 2 3 4 5\n0 7 7 7 7\n";
  return {"5 6 7\n8\t9 10\r\n\n11 12 13 4",
          text,
          "0",
          JoinFiles({text, "3 2 1000 10 7"}),
          JoinFiles({text, "1 1 9 9 0"}),
          JoinFiles({text, "3 4 1000 0 7"}),
          JoinFiles({text, "4 1 5 0 7"}),
          JoinFiles({text, "3 0 0 0 7"})};
}

// As a stream and as rows, and made-up ones: OK if any is.
absl::Status ReadWords(const std::string& input) {
  constexpr int64_t kMostWords = 2000;  // of a sample, for time
  const auto files = SplitFiles(input, 2);
  const std::string path = Scratch().Write("words.txt", files[0]);
  std::array<int64_t, 5> numbers = {3, 2, 1000, 0, 0};
  TakeNumbers(files[1], absl::MakeSpan(numbers));
  WordSample sample{.shape = {{std::min(numbers[0], kMostWords)}},
                    .labels = numbers[1],
                    .words = numbers[2],
                    .classes = static_cast<int>(numbers[3])};
  const auto made_up =
      MakeSyntheticWords({.sample = sample, .size = 20, .seed = static_cast<uint64_t>(numbers[4])});
  if (made_up.ok()) RETURN_IF_ERROR(ReadSamples(**made_up));
  const auto stream = OpenWordStream(path, sample);
  if (stream.ok()) RETURN_IF_ERROR(ReadSamples(**stream));
  const auto rows = OpenWordRows(path, sample);
  if (rows.ok()) RETURN_IF_ERROR(ReadSamples(**rows));
  return stream.ok() || made_up.ok() ? absl::OkStatus() : rows.status();
}

}  // namespace

absl::Status ReadSamples(const DataSource& source) {
  Demand(source.size() >= 1, "a source without samples");
  Demand(!source.Describe().empty(), "a source without description");
  const int64_t elements = source.shape().elements();
  Demand(elements >= 1, "samples without elements");
  if (elements > (1 << 24)) return absl::OkStatus();
  std::vector<float> x(static_cast<size_t>(elements));
  std::vector<int32_t> labels(static_cast<size_t>(source.labels()));
  const int64_t stride = std::max<int64_t>(1, source.size() / kMostSamples);
  for (int64_t index = 0; index < source.size(); index += stride) {
    RETURN_IF_ERROR(source.Read(index, 0, x, labels.data()));
    for (const int32_t label : labels) {
      Demand(label >= 0 && label < source.classes(), "a label beyond the classes");
    }
  }
  return absl::OkStatus();
}

std::vector<FuzzTarget> DataTargets() {
  const auto kDataLoss = absl::StatusCode::kDataLoss;
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto kNotFound = absl::StatusCode::kNotFound;
  return {{.name = "idx",
           .reads = "IDX files: images and labels",
           .seeds = IdxPairs,
           .mutate = MutateAsBytes,
           .read = ReadIdx,
           .inputs = 10'000},
          {.name = "jpeg",
           .reads = "JPEG images",
           .seeds = JpegImages,
           .mutate = MutateAsBytes,
           .read = ReadImage,
           .inputs = 10'000,
           .refusals = {kDataLoss}},
          {.name = "png",
           .reads = "PNG images",
           .seeds = PngImages,
           .mutate = MutatePng,
           .read = ReadImage,
           .inputs = 10'000,
           .refusals = {kDataLoss}},
          {.name = "labels",
           .reads = "lists of classes and labels beside image trees",
           .seeds = Lists,
           .mutate = MutateAsText,
           .read = ReadLists,
           .inputs = 2'000,
           .refusals = {kInvalid, kNotFound, kDataLoss}},
          {.name = "words",
           .reads = "texts of word numbers",
           .seeds = Texts,
           .mutate = MutateAsText,
           .read = ReadWords,
           .inputs = 10'000}};
}

}  // namespace partita
