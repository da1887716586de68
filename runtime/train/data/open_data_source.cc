#include "runtime/train/data/open_data_source.h"

#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/train/data/idx.h"
#include "runtime/train/data/image_folder.h"
#include "runtime/train/data/image_listing.h"
#include "runtime/train/data/safetensors_source.h"
#include "runtime/train/data/synthetic.h"
#include "runtime/train/data/synthetic_digits.h"
#include "runtime/train/data/words.h"

namespace partita {
namespace {

using Opened = absl::StatusOr<std::unique_ptr<DataSource>>;

struct DataForm {
  const char* name;
  bool (*matches)(const std::string& spec);
  Opened (*open)(const DataOptions& options);
  const char* description;
};

// Whether `spec` is `word` or `word:...`.
bool IsWord(const std::string& spec, const std::string& word) {
  return spec == word || spec.starts_with(word + ":");
}

// The number after the colon, 0 without one.
absl::StatusOr<int64_t> CountIn(const std::string& spec) {
  const size_t colon = spec.find(':');
  int64_t count = 0;
  if (colon == std::string::npos) return count;
  if (absl::SimpleAtoi(spec.substr(colon + 1), &count) && count > 0) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("'", spec, "': a positive number of samples is wanted behind the colon"));
}

Opened Kept(Opened source, const DataOptions& options) {
  if (!source.ok() || options.cache == DataCache::kNone) return source;
  return CacheSamples(*std::move(source), options.cache_bytes);
}

bool IsSynthetic(const std::string& spec) { return IsWord(spec, "synthetic"); }

WordSample SampleOf(const DataOptions& options) {
  return {.shape = options.shape,
          .labels = options.labels,
          .words = options.words,
          .classes = options.classes};
}

Opened OpenSynthetic(const DataOptions& options) {
  if (options.words > 0) {
    SyntheticWordsOptions words{
        .sample = SampleOf(options), .seed = options.seed, .split = options.split};
    ASSIGN_OR_RETURN(words.size, CountIn(options.spec));
    return MakeSyntheticWords(words);
  }
  SyntheticOptions own{.shape = options.shape, .seed = options.seed, .split = options.split};
  if (own.shape.dims.empty()) own.shape.dims = {3, 224, 224};
  if (options.classes > 0) own.classes = options.classes;
  ASSIGN_OR_RETURN(own.size, CountIn(options.spec));
  return Kept(MakeSyntheticSource(own), options);
}

bool IsSyntheticDigits(const std::string& spec) { return IsWord(spec, "synthetic_digits"); }

Opened OpenSyntheticDigits(const DataOptions& options) {
  SyntheticDigitsOptions own{.shape = options.shape,
                             .classes = options.classes,
                             .seed = options.seed,
                             .split = options.split,
                             .statistics = options.statistics};
  ASSIGN_OR_RETURN(own.size, CountIn(options.spec));
  return Kept(MakeSyntheticDigitsSource(own), options);
}

// The file behind the word and the colon.
std::string FileIn(const std::string& spec) { return spec.substr(spec.find(':') + 1); }

bool IsWordStream(const std::string& spec) { return spec.starts_with("words:"); }
Opened OpenStream(const DataOptions& options) {
  return OpenWordStream(FileIn(options.spec), SampleOf(options));
}

bool IsWordRows(const std::string& spec) { return spec.starts_with("rows:"); }
Opened OpenRows(const DataOptions& options) {
  return OpenWordRows(FileIn(options.spec), SampleOf(options));
}

bool IsSafetensors(const std::string& spec) { return absl::EndsWith(spec, ".safetensors"); }

Opened OpenSafetensors(const DataOptions& options) {
  return OpenSafetensorsSource({options.spec, options.shape, options.classes});
}

// A folder with an IDX file of either split, perhaps compressed, or a file with such a name.
bool IsIdx(const std::string& spec) {
  if (absl::StrContains(std::filesystem::path(spec).filename().string(), "-ubyte")) return true;
  std::error_code ignored;
  if (!std::filesystem::is_directory(spec, ignored)) return false;
  return !absl::IsNotFound(FindIdxFiles(spec, DataSplit::kTrain).status()) ||
         !absl::IsNotFound(FindIdxFiles(spec, DataSplit::kEval).status());
}

Opened OpenIdx(const DataOptions& options) {
  ASSIGN_OR_RETURN(const IdxPaths paths, FindIdxFiles(options.spec, options.split));
  return OpenIdxSource(
      {paths.images, paths.labels, options.shape, options.classes, options.statistics});
}

Opened OpenImages(const DataOptions& options) {
  return OpenImageFolder({.root = options.spec,
                          .split = options.split,
                          .shape = options.shape,
                          .classes = options.classes,
                          .statistics = options.statistics,
                          .augment = options.augment,
                          .seed = options.seed,
                          .cache = options.cache,
                          .cache_bytes = options.cache_bytes});
}

// The first row that matches opens.
constexpr std::array<DataForm, 7> kForms = {{
    {"synthetic[:SAMPLES]", IsSynthetic, OpenSynthetic,
     "class patterns with noise, of any shape, drawn from the seed; of words: sequences in which "
     "the next one can be told"},
    {"synthetic_digits[:SAMPLES]", IsSyntheticDigits, OpenSyntheticDigits,
     "28 x 28 drawn digits, a stand-in for MNIST"},
    {"words:FILE", IsWordStream, OpenStream,
     "a text of word numbers, taken as one sequence: samples one behind the other, and as labels "
     "the word behind each of their last words"},
    {"rows:FILE", IsWordRows, OpenRows,
     "a text with a sample in each line: its word numbers, then its labels"},
    {"FILE.safetensors", IsSafetensors, OpenSafetensors,
     "tensors x [n, ...] and y [n], or x [steps, batch, ...] and y [steps, batch]"},
    {"FOLDER or FILE of IDX", IsIdx, OpenIdx,
     "MNIST's format: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..."},
    {"FOLDER of images", LooksLikeImageTree, OpenImages,
     "a folder of JPEG or PNG files for each class, optionally below train and val; Tiny "
     "ImageNet's layout"},
}};

}  // namespace

std::string DataForms() {
  std::string text;
  for (const DataForm& form : kForms) {
    absl::StrAppend(&text, "  ", form.name, ": ", form.description, "\n");
  }
  return text;
}

std::string PathOfData(const std::string& spec) {
  return IsWordStream(spec) || IsWordRows(spec) ? FileIn(spec) : spec;
}

Opened OpenDataSource(const DataOptions& options) {
  for (const DataForm& form : kForms) {
    if (form.matches(options.spec)) return form.open(options);
  }
  std::error_code ignored;
  if (std::filesystem::exists(options.spec, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.spec, "' is no data of a known form:\n", DataForms()));
  }
  return absl::NotFoundError(
      absl::StrCat("there is no data '", options.spec, "'; known forms:\n", DataForms()));
}

}  // namespace partita
