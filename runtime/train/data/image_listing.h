#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/train/data/data_source.h"

namespace partita {

// The JPEG and PNG files of one split of a tree of images, in a fixed order, with their classes.
struct ImageListing {
  struct Item {
    std::string path;
    int32_t label = 0;
  };
  std::vector<std::string> classes;  // indexed by label
  std::string classes_from;          // what names them: "the lines of 'ROOT/wnids.txt'"
  std::vector<Item> items;
};

// Lists a tree of one of these layouts:
//   ROOT/CLASS/*.jpg                       one set: both splits are all of it
//   ROOT/{train,val}/CLASS/*.jpg           two splits, as ImageNet is often laid out
//   ROOT/train/CLASS/images/*.JPEG,        Tiny ImageNet: val_annotations.txt has a line per file:
//   ROOT/val/images/*.JPEG,                name, tab, class, tab, ...
//   ROOT/val/val_annotations.txt
// ROOT may also be one of the train or val folders. Labels follow the lines of wnids.txt, in ROOT
// or the folder above, where there is one; else the sorted names of the class folders (of train,
// where there is one, for both splits). Files follow the classes' order, then their names; in
// val_annotations.txt the lines. Endings .jpg, .jpeg and .png in any case; other files are passed
// over, as are names that begin with a dot. InvalidArgument or NotFound says what is missing where.
absl::StatusOr<ImageListing> ListImages(const std::string& root, DataSplit split);

// Whether `root` looks like such a tree, at a glance.
bool LooksLikeImageTree(const std::string& root);

}  // namespace partita
