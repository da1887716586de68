#include "runtime/train/data/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/train/data/image_listing.h"
#include "runtime/train/data/open_data_source.h"
#include "tests/runtime/data/jpeg_file.h"
#include "tests/runtime/data/png_file.h"
#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> NamesOf(const ImageListing& listing, const std::string& root) {
  std::vector<std::string> names;
  for (const auto& [path, label] : listing.items) {
    names.push_back(absl::StrCat(path.substr(root.size() + 1), " ", label));
  }
  return names;
}

// Tiny ImageNet's layout: the order of wnids.txt is not that of the names.
void WriteTinyImageNet(const TempFolder& root) {
  root.Write("wnids.txt", "n02\r\nn01\r\n");
  for (const char* name : {"n01", "n02"}) {
    for (int i = 0; i < 3; ++i) {
      const std::string stem = absl::StrCat("train/", name, "/images/", name, "_", i, ".JPEG");
      root.Write(stem, MakeJpeg(64, 64, name[2] == '1' ? 250 : 10));
    }
    root.Write(absl::StrCat("train/", name, "/", name, "_boxes.txt"), "n01_0.JPEG\t0\t0\t62\t62\n");
  }
  for (int i = 0; i < 2; ++i) {
    root.Write(absl::StrCat("val/images/val_", i, ".JPEG"), MakeJpeg(64, 64, i == 0 ? 250 : 10));
  }
  root.Write("val/val_annotations.txt",
             "val_0.JPEG\tn01\t0\t0\t1\t1\nval_1.JPEG\tn02\t0\t0\t1\t1\n");
}

TEST(ImageListingTest, TinyImageNetsLabelsFollowWnids) {
  const TempFolder root;
  WriteTinyImageNet(root);
  const auto train = ListImages(root.path(), DataSplit::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_THAT(train->classes, ElementsAre("n02", "n01"));
  EXPECT_THAT(NamesOf(*train, root.path()),
              ElementsAre("train/n02/images/n02_0.JPEG 0", "train/n02/images/n02_1.JPEG 0",
                          "train/n02/images/n02_2.JPEG 0", "train/n01/images/n01_0.JPEG 1",
                          "train/n01/images/n01_1.JPEG 1", "train/n01/images/n01_2.JPEG 1"));
  const auto val = ListImages(root.path(), DataSplit::kEval);
  ASSERT_TRUE(val.ok()) << val.status();
  EXPECT_THAT(NamesOf(*val, root.path()),
              ElementsAre("val/images/val_0.JPEG 1", "val/images/val_1.JPEG 0"));
  const auto inner = ListImages(root / "val", DataSplit::kEval);
  ASSERT_TRUE(inner.ok()) << inner.status();
  EXPECT_EQ(inner->items.size(), 2u);
  EXPECT_EQ(inner->items[0].label, 1);
}

TEST(ImageListingTest, ClassFoldersAreLabelledByName) {
  const TempFolder root;
  root.Write("train/dog/b.jpg", "");
  root.Write("train/dog/a.JPG", "");
  root.Write("train/cat/c.jpeg", "");
  root.Write("train/cat/notes.txt", "");
  root.Write("train/cat/.hidden.jpg", "");
  root.Write("train/cat/d.PNG", "");
  root.Write("train/dog/c.png", "");
  root.Write("val/dog/d.jpg", "");
  const auto train = ListImages(root.path(), DataSplit::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_THAT(train->classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(NamesOf(*train, root.path()),
              ElementsAre("train/cat/c.jpeg 0", "train/cat/d.PNG 0", "train/dog/a.JPG 1",
                          "train/dog/b.jpg 1", "train/dog/c.png 1"));
  const auto val = ListImages(root.path(), DataSplit::kEval);
  ASSERT_TRUE(val.ok()) << val.status();
  EXPECT_THAT(NamesOf(*val, root.path()), ElementsAre("val/dog/d.jpg 1"));
  EXPECT_EQ(ListImages(root / "train", DataSplit::kEval)->items.size(), 5u);
}

TEST(ImageListingTest, WhatIsMissingIsNamed) {
  const TempFolder root;
  const auto message = [&](DataSplit split) {
    return std::string(ListImages(root.path(), split).status().message());
  };
  EXPECT_THAT(message(DataSplit::kTrain), HasSubstr("has no class folders"));
  root.Write("train/cat/notes.txt", "");
  EXPECT_THAT(message(DataSplit::kTrain), HasSubstr("no .jpg, .jpeg or .png files"));
  EXPECT_THAT(message(DataSplit::kEval), HasSubstr("has no folder 'val'"));
  root.Write("val/cow/a.jpg", "");
  EXPECT_THAT(message(DataSplit::kEval), HasSubstr("val/cow' is not one of the 1 classes"));
  root.Write("val/val_annotations.txt", "a.jpg\tcat\nb.jpg cat\n");
  EXPECT_THAT(message(DataSplit::kEval), HasSubstr("line 2"));
  root.Write("wnids.txt", "a\na\n");
  EXPECT_THAT(message(DataSplit::kTrain), HasSubstr("class 'a' is there twice"));
  EXPECT_EQ(ListImages(root / "no", DataSplit::kTrain).status().code(),
            absl::StatusCode::kNotFound);
}

std::vector<float> Pixels(const DataSource& source, int64_t index, int64_t epoch, int32_t* label) {
  std::vector<float> x(static_cast<size_t>(source.shape().elements()));
  const absl::Status status = source.Read(index, epoch, x, label);
  EXPECT_TRUE(status.ok()) << status;
  return x;
}

TEST(ImageFolderTest, EvaluationCutsTheCentreAndNormalises) {
  const TempFolder root;
  WriteTinyImageNet(root);
  const auto source =
      OpenImageFolder({.root = root.path(), .split = DataSplit::kEval, .shape = {{3, 56, 56}}});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->classes(), 2);
  int32_t label = -1;
  const std::vector<float> x = Pixels(**source, 0, 0, &label);
  EXPECT_EQ(label, 1);
  // 56 px are cut from 64 px, the size of the file, so nothing is resized: the ramps begin at 4/64.
  const auto raw = [&](size_t c, size_t h, size_t w) {
    const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
    return 255 * (x[(c * 56 + h) * 56 + w] * std[c] + mean[c]);
  };
  for (size_t i = 0; i < 56; i += 5) {
    EXPECT_NEAR(raw(0, 20, i), 255.0 * static_cast<double>(i + 4) / 64, 8);
    EXPECT_NEAR(raw(1, i, 20), 255.0 * static_cast<double>(i + 4) / 64, 8);
    EXPECT_NEAR(raw(2, i, i), 250, 8);
  }
  EXPECT_EQ(x, Pixels(**source, 0, 7, &label)) << "no augmentation when evaluating";
}

TEST(ImageFolderTest, AnUnsquareImageIsCoveredNotSquashed) {
  const TempFolder root;
  root.Write("a/wide.jpg", MakeJpeg(200, 100, 5));
  const auto source =
      OpenImageFolder({.root = root.path(), .split = DataSplit::kEval, .shape = {{1, 28, 28}}});
  ASSERT_TRUE(source.ok()) << source.status();
  int32_t label = -1;
  const std::vector<float> x = Pixels(**source, 0, 0, &label);
  // 32 x 64 after the resize; the middle 28 of 64 columns show the ramp from 18/64 to 46/64.
  const auto grey = [&](size_t h, size_t w) { return 255 * (x[h * 28 + w] * 0.226f + 0.449f); };
  EXPECT_NEAR(grey(14, 27) - grey(14, 0), 0.299 * 255 * 27 / 64, 4);
  EXPECT_NEAR(grey(27, 14) - grey(0, 14), 0.587 * 255 * 27 / 32, 4);
}

TEST(ImageFolderTest, PngIsReadAsJpegIs) {
  const TempFolder root;
  root.Write("a/0.jpg", MakeJpeg(64, 64, 90, 100));
  root.Write("a/1.png", MakePng(64, 64, 90));
  root.Write("a/2.jpg", MakePng(64, 64, 90));  // named wrongly
  const auto source =
      OpenImageFolder({.root = root.path(), .split = DataSplit::kEval, .shape = {{3, 28, 28}}});
  ASSERT_TRUE(source.ok()) << source.status();
  int32_t label = -1;
  const std::vector<float> jpeg = Pixels(**source, 0, 0, &label);
  const std::vector<float> png = Pixels(**source, 1, 0, &label);
  for (size_t i = 0; i < jpeg.size(); ++i) EXPECT_NEAR(jpeg[i], png[i], 0.06) << i;
  EXPECT_EQ(png, Pixels(**source, 2, 0, &label));
}

TEST(ImageFolderTest, AugmentationDependsOnSeedEpochAndIndexOnly) {
  const TempFolder root;
  WriteTinyImageNet(root);
  const ImageFolderOptions options{.root = root.path(), .shape = {{3, 40, 40}}, .seed = 4};
  ImageFolderOptions other_options = options;
  other_options.seed = 5;
  ImageFolderOptions cached_options = options;
  cached_options.cache = DataCache::kMemory;
  const auto a = OpenImageFolder(options), b = OpenImageFolder(options);
  const auto other = OpenImageFolder(other_options), cached = OpenImageFolder(cached_options);
  ASSERT_TRUE(a.ok() && b.ok() && other.ok() && cached.ok());
  int32_t label = -1;
  std::set<std::vector<float>> seen;
  int mirrored = 0;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const std::vector<float> x = Pixels(**a, 2, epoch, &label);
    EXPECT_EQ(x, Pixels(**b, 2, epoch, &label));
    EXPECT_EQ(x, Pixels(**cached, 2, epoch, &label)) << "the cache keeps what is before the crop";
    seen.insert(x);
    mirrored += x[20 * 40 + 5] > x[20 * 40 + 35];  // red grows to the right in the file
  }
  EXPECT_GT(seen.size(), 15u);
  EXPECT_GT(mirrored, 3);
  EXPECT_LT(mirrored, 17);
  EXPECT_NE(Pixels(**a, 2, 0, &label), Pixels(**other, 2, 0, &label));
}

TEST(ImageFolderTest, TheCacheReadsNoFileTwice) {
  const TempFolder root;
  root.Write("c/a.jpg", MakeJpeg(64, 64, 5));
  root.Write("c/b.jpg", MakeJpeg(64, 64, 6));
  // Room for one of the two.
  const auto source = OpenImageFolder({.root = root.path(),
                                       .shape = {{3, 56, 56}},
                                       .cache = DataCache::kMemory,
                                       .cache_bytes = 64 * 64 * 3 + 1000});
  ASSERT_TRUE(source.ok()) << source.status();
  int32_t label = -1;
  const std::vector<float> a = Pixels(**source, 0, 0, &label);
  Pixels(**source, 1, 0, &label);
  std::filesystem::remove_all(root / "c");
  EXPECT_EQ(Pixels(**source, 0, 0, &label), a);
  std::vector<float> x(a.size());
  const absl::Status gone = (*source)->Read(1, 0, x, &label);
  EXPECT_EQ(gone.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("c/b.jpg"));
}

TEST(ImageFolderTest, BrokenAndNarrowImagesAreDataLossWithTheirName) {
  const TempFolder root;
  root.Write("c/a.jpg", "not a picture");
  root.Write("c/b.jpg", MakeJpeg(2, 40000, 5));
  root.Write("c/c.png", MakePng(30, 30, 5).substr(0, 60));
  root.Write("c/d.png", MakePng(2, 40000, 5));
  const auto source = OpenImageFolder({.root = root.path()});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->shape().ToString(), "3x224x224");
  std::vector<float> x(3 * 224 * 224);
  int32_t label = -1;
  const char* names[] = {"c/a.jpg", "c/b.jpg", "c/c.png", "c/d.png"};
  for (int64_t i = 0; i < 4; ++i) {
    const absl::Status status = (*source)->Read(i, 0, x, &label);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(names[i]));
  }
}

TEST(ImageFolderTest, ShapesAndClassesThatDoNotFitAreRefused) {
  const TempFolder root;
  WriteTinyImageNet(root);
  EXPECT_FALSE(OpenImageFolder({.root = root.path(), .shape = {{784}}}).ok());
  EXPECT_FALSE(OpenImageFolder({.root = root.path(), .shape = {{2, 56, 56}}}).ok());
  EXPECT_FALSE(OpenImageFolder({.root = root.path(), .shape = {{3, 56, 1 << 20}}}).ok());
}

TEST(ImageFolderTest, ATreeHasAsManyClassesAsTheModel) {
  const TempFolder root;
  for (const char* name : {"train/cat/0.jpg", "train/dog/0.jpg", "val/dog/1.jpg"}) {
    root.Write(name, MakeJpeg(8, 8, 8));
  }
  const auto open = [&](int classes, DataSplit split) {
    return OpenImageFolder({.root = root.path(), .split = split, .classes = classes});
  };
  for (const DataSplit split : {DataSplit::kTrain, DataSplit::kEval}) {
    EXPECT_TRUE(open(0, split).ok());
    EXPECT_TRUE(open(2, split).ok());
    for (const int classes : {1, 3, 1000}) {
      const absl::Status status = open(classes, split).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("'", root.path(), "', the folders in '", root.path(),
                                         "/train': 2 classes; the model has ", classes,
                                         ". Take a model with 2 outputs, or ")));
    }
  }
  // With all names of the model's classes some may have no images.
  root.Write("wnids.txt", "bird\ncat\ndog\n");
  const auto some = open(3, DataSplit::kTrain);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(NoteOnClasses(**some), "");
  int32_t label = -1;
  Pixels(**some, 1, 0, &label);
  EXPECT_EQ(label, 2);
  EXPECT_THAT(
      std::string(open(2, DataSplit::kTrain).status().message()),
      HasSubstr("the lines of '" + root.path() + "/wnids.txt': 3 classes; the model has 2"));
}

}  // namespace
}  // namespace partita
