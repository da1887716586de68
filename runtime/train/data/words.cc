#include "runtime/train/data/words.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/file.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{1} << 32;
constexpr int64_t kMaxLabels = int64_t{1} << 31;

// Streams of random words.
enum Stream : uint64_t { kSuccessor, kTrainWords, kEvalWords };

absl::Status CheckWordSample(const WordSample& sample, const std::string& what) {
  RETURN_IF_ERROR(CheckSampleShape(sample.shape, what));
  if (sample.labels >= 1 && sample.labels <= kMaxLabels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": ", sample.labels, " labels for each sample"));
}

// The labels of words are the words behind them: no more than there are words.
absl::Status CheckFollowing(const WordSample& sample, const std::string& what) {
  if (sample.labels <= sample.shape.elements()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": the model takes ", sample.shape.elements(), " words and tells ",
                   sample.labels, " labels; at most one for each word can be the word behind it"));
}

// The number that a word of the text stands for.
absl::StatusOr<int32_t> NumberIn(absl::string_view text, const std::string& path, int64_t line) {
  int32_t number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= 0) return number;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", path, "' line ", line, ": '", text.substr(0, 40), "' is no number from 0 to ",
      std::numeric_limits<int32_t>::max(), "; words are given as numbers, between white space"));
}

absl::Status CheckWord(int32_t word, const WordSample& sample, const std::string& what) {
  if (sample.words == 0 || word < sample.words) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " has the word ", word, "; the model knows ",
                                                 sample.words, " (0 to ", sample.words - 1, ")"));
}

class WordSource : public DataSource {
 public:
  explicit WordSource(WordSample sample) : sample_(std::move(sample)) {}
  const SampleShape& shape() const override { return sample_.shape; }
  int classes() const override { return sample_.classes; }
  int64_t labels() const override { return sample_.labels; }
  bool gives_words() const override { return true; }

 protected:
  int64_t words() const { return sample_.shape.elements(); }
  const WordSample& sample() const { return sample_; }

  // Words as the bits of floats.
  static void Store(std::span<const int32_t> words, std::span<float> x) {
    std::ranges::transform(words, x.begin(), [](int32_t w) { return std::bit_cast<float>(w); });
  }
  std::string Samples(int64_t count) const {
    return absl::StrCat(count, " samples of ", sample_.shape.ToString(), " words with ",
                        sample_.labels, sample_.labels == 1 ? " label" : " labels");
  }

 private:
  const WordSample sample_;
};

// Samples that are `stride` numbers apart; the labels begin `offset` behind the first word.
class TextWords : public WordSource {
 public:
  struct Layout {
    std::string path, form;
    int64_t size = 0, stride = 1, offset = 1;
  };
  // With `wanted` classes, or without a number as many as the labels say.
  static absl::StatusOr<std::unique_ptr<DataSource>> Create(const WordSample& wanted,
                                                            std::vector<int32_t> numbers,
                                                            Layout layout) {
    LargestLabel largest{.label = -1};
    for (int64_t i = 0; i < layout.size; ++i) {
      const auto first = numbers.begin() + i * layout.stride + layout.offset;
      const int32_t label = *std::max_element(first, first + wanted.labels);
      if (label > largest.label) largest = {.label = label, .sample = i};
    }
    WordSample sample = wanted;
    ASSIGN_OR_RETURN(sample.classes, DeliveredClasses(largest, wanted.classes,
                                                      absl::StrCat("'", layout.path, "'")));
    return std::unique_ptr<DataSource>(new TextWords(std::move(sample), std::move(numbers),
                                                     std::move(layout),
                                                     static_cast<int>(largest.label) + 1));
  }

  int64_t size() const override { return layout_.size; }
  int labelled_classes() const override { return labelled_classes_; }

  absl::Status Read(int64_t index, int64_t /*epoch*/, std::span<float> x,
                    int32_t* label) const override {
    const int32_t* first = numbers_.data() + index * layout_.stride;
    Store({first, static_cast<size_t>(words())}, x);
    std::copy_n(first + layout_.offset, labels(), label);
    return absl::OkStatus();
  }

  std::string Describe() const override {
    return absl::StrCat(layout_.form, " '", layout_.path, "': ", Samples(size()));
  }

 private:
  TextWords(WordSample sample, std::vector<int32_t> numbers, Layout layout, int labelled_classes)
      : WordSource(std::move(sample)),
        numbers_(std::move(numbers)),
        layout_(std::move(layout)),
        labelled_classes_(labelled_classes) {}

  const std::vector<int32_t> numbers_;
  const Layout layout_;
  const int labelled_classes_;
};

class SyntheticWords : public WordSource {
 public:
  explicit SyntheticWords(const SyntheticWordsOptions& options)
      : WordSource(options.sample), options_(options) {
    const int64_t known = options.sample.words;
    if (known > 1) step_ = 1 + PhiloxWord(options.seed, kSuccessor, 0) % (known - 1);
  }

  int64_t size() const override { return options_.size; }

  absl::Status Read(int64_t index, int64_t /*epoch*/, std::span<float> x,
                    int32_t* label) const override {
    const Stream stream = options_.split == DataSplit::kTrain ? kTrainWords : kEvalWords;
    const auto random = [&](int64_t k) {
      return PhiloxWord(options_.seed, stream, static_cast<uint64_t>(index * 2 * words() + k));
    };
    std::vector<int32_t> sequence;
    for (int64_t t = 0; t < words(); ++t) {
      const bool follows = t > 0 && random(2 * t) % 4 != 0;
      sequence.push_back(follows ? Behind(sequence.back())
                                 : static_cast<int32_t>(random(2 * t + 1) % sample().words));
    }
    Store(sequence, x);
    for (int64_t k = 0; k < labels(); ++k) {
      const int32_t last = sequence[static_cast<size_t>(words() - labels() + k)];
      label[k] = Behind(last) % sample().classes;
    }
    return absl::OkStatus();
  }

  std::string Describe() const override {
    return absl::StrCat("synthetic words: ", Samples(size()));
  }

 private:
  int32_t Behind(int32_t word) const {
    return static_cast<int32_t>((word + step_) % sample().words);
  }

  const SyntheticWordsOptions options_;
  int64_t step_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenWordStream(const std::string& path,
                                                           const WordSample& wanted) {
  const std::string what = absl::StrCat("'", path, "'");
  RETURN_IF_ERROR(CheckWordSample(wanted, what));
  RETURN_IF_ERROR(CheckFollowing(wanted, what));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxTextBytes));
  std::vector<int32_t> numbers;
  int64_t line = 0;
  for (absl::string_view row : absl::StrSplit(text, '\n')) {
    ++line;
    for (absl::string_view word :
         absl::StrSplit(row, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
      ASSIGN_OR_RETURN(numbers.emplace_back(), NumberIn(word, path, line));
      RETURN_IF_ERROR(CheckWord(numbers.back(), wanted, absl::StrCat(what, " line ", line)));
    }
  }
  const int64_t words = wanted.shape.elements(), found = static_cast<int64_t>(numbers.size());
  TextWords::Layout layout{.path = path,
                           .form = "sequence",
                           .size = (found - 1) / words,
                           .stride = words,
                           .offset = words - wanted.labels + 1};
  if (found <= words) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has ", found, " numbers; a sample of ",
                                                   words, " words and what follows takes ",
                                                   words + 1));
  }
  return TextWords::Create(wanted, std::move(numbers), std::move(layout));
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenWordRows(const std::string& path,
                                                         const WordSample& wanted) {
  const std::string what = absl::StrCat("'", path, "'");
  RETURN_IF_ERROR(CheckWordSample(wanted, what));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxTextBytes));
  const int64_t words = wanted.shape.elements(), row_size = words + wanted.labels;
  std::vector<int32_t> numbers;
  int64_t line = 0;
  for (absl::string_view row : absl::StrSplit(text, '\n')) {
    ++line;
    int64_t count = 0;
    for (absl::string_view word :
         absl::StrSplit(row, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
      ASSIGN_OR_RETURN(numbers.emplace_back(), NumberIn(word, path, line));
      if (count++ < words) {
        RETURN_IF_ERROR(CheckWord(numbers.back(), wanted, absl::StrCat(what, " line ", line)));
      }
    }
    if (count == 0 || count == row_size) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, " line ", line, " has ", count,
                                                   " numbers; wanted ", words, " words and ",
                                                   wanted.labels, " labels"));
  }
  if (numbers.empty()) return absl::InvalidArgumentError(absl::StrCat(what, " has no samples"));
  TextWords::Layout layout{.path = path,
                           .form = "rows of",
                           .size = static_cast<int64_t>(numbers.size()) / row_size,
                           .stride = row_size,
                           .offset = words};
  return TextWords::Create(wanted, std::move(numbers), std::move(layout));
}

absl::StatusOr<std::unique_ptr<DataSource>> MakeSyntheticWords(
    const SyntheticWordsOptions& options) {
  SyntheticWordsOptions own = options;
  const std::string what = "synthetic words";
  RETURN_IF_ERROR(CheckWordSample(own.sample, what));
  RETURN_IF_ERROR(CheckFollowing(own.sample, what));
  if (own.sample.words < 1 || own.sample.words > std::numeric_limits<int32_t>::max() ||
      own.sample.classes < 1) {
    return absl::InvalidArgumentError(absl::StrCat(what, " of ", own.sample.words, " kinds and ",
                                                   own.sample.classes, " classes"));
  }
  if (own.size == 0) own.size = own.split == DataSplit::kTrain ? 51'200 : 10'240;
  return std::make_unique<SyntheticWords>(own);
}

}  // namespace partita
