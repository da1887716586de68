#include "runtime/train/data/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/train/data/loader.h"
#include "runtime/train/data/open_data_source.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WordFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

struct WordsAndLabels {
  std::vector<int32_t> words, labels;
};

WordsAndLabels ReadWords(const DataSource& source, int64_t index) {
  std::vector<float> x(static_cast<size_t>(source.shape().elements()));
  WordsAndLabels sample{.labels = std::vector<int32_t>(static_cast<size_t>(source.labels()))};
  EXPECT_EQ(source.Read(index, 0, x, sample.labels.data()), absl::OkStatus());
  for (float bits : x) sample.words.push_back(std::bit_cast<int32_t>(bits));
  return sample;
}

TEST(WordsTest, AStreamIsCutIntoSamplesWhoseLabelsAreTheWordsBehind) {
  const std::string path = WordFile("stream.txt", "5 6 7\n8\t9 10\r\n\n11 12");
  const auto source = OpenWordStream(path, {.shape = {{3}}, .labels = 3, .words = 20});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 2);  // of the last word nothing is known
  EXPECT_TRUE((*source)->gives_words());
  EXPECT_EQ((*source)->classes(), 12);
  EXPECT_THAT(ReadWords(**source, 0).words, ElementsAre(5, 6, 7));
  EXPECT_THAT(ReadWords(**source, 0).labels, ElementsAre(6, 7, 8));
  EXPECT_THAT(ReadWords(**source, 1).words, ElementsAre(8, 9, 10));
  EXPECT_THAT(ReadWords(**source, 1).labels, ElementsAre(9, 10, 11));
  // As a translator takes it: labels behind the last words only.
  const auto half = OpenWordStream(path, {.shape = {{4}}, .labels = 2, .words = 20});
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ((*half)->size(), 1);
  EXPECT_THAT(ReadWords(**half, 0).labels, ElementsAre(8, 9));
}

TEST(WordsTest, ARowHasWordsAndThenLabels) {
  const std::string path = WordFile("rows.txt", "1 2 3 0\n\n4 5 6 1\n");
  const auto source = OpenWordRows(path, {.shape = {{3}}, .words = 7, .classes = 2});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 2);
  EXPECT_THAT(ReadWords(**source, 1).words, ElementsAre(4, 5, 6));
  EXPECT_THAT(ReadWords(**source, 1).labels, ElementsAre(1));
  EXPECT_THAT((*source)->Describe(), HasSubstr("2 samples of 3 words with 1 label"));
}

TEST(WordsTest, WhatIsWrongIsSaidWithItsLine) {
  const auto stream = [](const std::string& text, const WordSample& sample) {
    return std::string(OpenWordStream(WordFile("bad.txt", text), sample).status().message());
  };
  const auto rows = [](const std::string& text, const WordSample& sample) {
    return std::string(OpenWordRows(WordFile("bad.txt", text), sample).status().message());
  };
  const WordSample two{.shape = {{2}}, .labels = 1, .words = 5, .classes = 5};
  EXPECT_THAT(stream("1 2\n3 four", two), HasSubstr("line 2: 'four' is no number from 0 to"));
  EXPECT_THAT(stream("1 -2 3", two), HasSubstr("line 1: '-2'"));
  EXPECT_THAT(stream("1 99999999999 3", two), HasSubstr("'99999999999'"));
  EXPECT_THAT(stream("1\n5 3", two),
              HasSubstr("line 2 has the word 5; the model knows 5 (0 to 4)"));
  EXPECT_THAT(stream("1 2", two), HasSubstr("has 2 numbers"));
  EXPECT_THAT(stream("1 2 3", {.shape = {{2}}, .labels = 3}), HasSubstr("tells 3 labels"));
  EXPECT_THAT(stream("1 2 3", {.shape = {{2}}, .classes = 2}),
              HasSubstr("sample 0 has the label 3; the model has 2 classes, labels 0 to 1"));
  EXPECT_THAT(rows("1 2 0\n1 2\n", two), HasSubstr("line 2 has 2 numbers; wanted 2 words and 1"));
  EXPECT_THAT(rows("1 2 5\n", two), HasSubstr("sample 0 has the label 5; the model has 5 classes"));
  EXPECT_THAT(rows("1 9 0\n", two), HasSubstr("line 1 has the word 9"));
  EXPECT_THAT(rows("\n\n", two), HasSubstr("has no samples"));
  EXPECT_EQ(OpenWordStream("/nowhere.txt", two).status().code(), absl::StatusCode::kNotFound);
}

TEST(WordsTest, LabelsOfSamplesAloneSayHowManyClassesThereAre) {
  // 9 is only read, and 7 is behind the last sample.
  const std::string path = WordFile("labels.txt", "9 1 2 3 4 5 6 0 7");
  const WordSample three{.shape = {{3}}, .labels = 2, .classes = 6};
  const auto refused = OpenWordStream(path, three);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("labels.txt': sample 1 has the label 6; the model has 6 classes"));
  WordSample wide = three;
  wide.classes = 8;
  const auto source = OpenWordStream(path, wide);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->classes(), 8);
  EXPECT_EQ((*source)->labelled_classes(), 7);
  EXPECT_THAT(NoteOnClasses(**source),
              HasSubstr("the largest label is 6; the model has 8 classes"));
  wide.classes = 7;
  EXPECT_EQ(NoteOnClasses(**OpenWordStream(path, wide)), "");
  const auto rows =
      OpenWordRows(WordFile("rows_of_labels.txt", "9 9 9 1 0\n0 0 0 0 2\n0 0 0 2 1"), three);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)->labelled_classes(), 3);
  EXPECT_THAT(NoteOnClasses(**rows), HasSubstr("no sample is of the last 3"));
}

TEST(WordsTest, SyntheticWordsFollowTheSeed) {
  SyntheticWordsOptions options{
      .sample = {.shape = {{6}}, .labels = 6, .words = 10, .classes = 10}, .size = 200, .seed = 4};
  const auto source = MakeSyntheticWords(options);
  ASSERT_TRUE(source.ok()) << source.status();
  const WordsAndLabels first = ReadWords(**source, 0);
  const int32_t step = (first.labels[0] - first.words[0] + 10) % 10;
  EXPECT_GT(step, 0);
  int follows = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const WordsAndLabels sample = ReadWords(**source, i);
    for (size_t t = 0; t < 6; ++t) {
      EXPECT_EQ(sample.labels[t], (sample.words[t] + step) % 10);
      follows += t > 0 && sample.words[t] == sample.labels[t - 1];
    }
  }
  EXPECT_NEAR(follows, 1000 * 0.775, 60);  // three of four, and one in ten of the rest
  options.split = DataSplit::kEval;
  EXPECT_NE(ReadWords(**MakeSyntheticWords(options), 0).words, first.words);
}

TEST(WordsTest, OpenByTheirForms) {
  const std::string path = WordFile("forms.txt", "1 2 3 4\n5 6 7 1\n");
  const DataOptions model{.shape = {{3}}, .classes = 8, .words = 8, .labels = 1};
  for (const std::string& spec :
       {absl::StrCat("words:", path), absl::StrCat("rows:", path), std::string("synthetic:5")}) {
    DataOptions options = model;
    options.spec = spec;
    const auto source = OpenDataSource(options);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_TRUE((*source)->gives_words()) << spec;
    EXPECT_EQ(PathOfData(spec), spec == "synthetic:5" ? spec : path);
  }
  EXPECT_THAT(DataForms(), HasSubstr("words:FILE"));
}

TEST(WordsTest, BatchesHaveTheLabelsOfAllSamples) {
  const std::string path = WordFile("batches.txt", "0 1 2 3 4 5 6 7 8 9 10 11 12");
  std::shared_ptr<const DataSource> source =
      *OpenWordStream(path, {.shape = {{3}}, .labels = 3, .words = 20});
  for (int workers : {0, 2}) {
    const auto loader = BatchLoader::Create(
        source, {.batch_size = 2, .workers = workers, .shuffle = false, .epochs = 1});
    ASSERT_TRUE(loader.ok()) << loader.status();
    for (int32_t batch = 0; batch < 2; ++batch) {
      const auto got = (*loader)->Next();
      ASSERT_TRUE(got.ok()) << got.status();
      std::vector<int32_t> labels(got->labels.begin(), got->labels.end());
      const int32_t first = 6 * batch + 1;
      EXPECT_THAT(labels,
                  ElementsAre(first, first + 1, first + 2, first + 3, first + 4, first + 5));
    }
  }
}

}  // namespace
}  // namespace partita
