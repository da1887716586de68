#include "runtime/train/data/image_listing.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxListBytes = int64_t{1} << 30;  // of wnids.txt and val_annotations.txt

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool HasImageName(const std::string& name) {
  return absl::EndsWithIgnoreCase(name, ".jpg") || absl::EndsWithIgnoreCase(name, ".jpeg") ||
         absl::EndsWithIgnoreCase(name, ".png");
}

struct Names {
  std::vector<std::string> folders;
  std::vector<std::string> images;
};

// Sorted.
absl::StatusOr<Names> NamesIn(const std::string& folder) {
  Names names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(".")) continue;
    if (HasImageName(name)) {
      names.images.push_back(name);
    } else if (entry->is_directory(ignored)) {
      names.folders.push_back(name);
    }
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("cannot list '", folder, "': ", error.message()));
  }
  std::ranges::sort(names.folders);
  std::ranges::sort(names.images);
  return names;
}

absl::StatusOr<std::vector<std::string>> LinesOf(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxListBytes));
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    lines.emplace_back(absl::StripTrailingAsciiWhitespace(line));
  }
  return lines;
}

// The folder of the split.
absl::StatusOr<std::string> SplitFolder(const std::string& root, DataSplit split) {
  const bool is_train = split == DataSplit::kTrain;
  const std::string own = root + (is_train ? "/train" : "/val");
  if (IsFolder(own)) return own;
  if (!IsFolder(root + (is_train ? "/val" : "/train"))) return root;
  return absl::NotFoundError(absl::StrCat("'", root, "' has no folder '",
                                          is_train ? "train" : "val", "', only the other split"));
}

// Sets the classes and where they are from.
absl::Status FindClasses(const std::string& root, const std::string& folder,
                         ImageListing& listing) {
  for (const std::string& list : {root + "/wnids.txt", root + "/../wnids.txt"}) {
    if (!IsFile(list)) continue;
    ASSIGN_OR_RETURN(std::vector<std::string> lines, LinesOf(list));
    std::erase(lines, "");
    if (lines.empty()) return absl::InvalidArgumentError(absl::StrCat("'", list, "' is empty"));
    listing.classes = std::move(lines);
    listing.classes_from = absl::StrCat("the lines of '", list, "'");
    return absl::OkStatus();
  }
  const std::string place = IsFolder(root + "/train") ? root + "/train" : folder;
  ASSIGN_OR_RETURN(Names names, NamesIn(place));
  if (names.folders.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", folder,
        "' has no class folders; a folder of JPEG or PNG files for each class is wanted"));
  }
  listing.classes = std::move(names.folders);
  listing.classes_from = absl::StrCat("the folders in '", place, "'");
  return absl::OkStatus();
}

using LabelOf = std::map<std::string, int32_t>;

absl::Status ListAnnotated(const std::string& folder, const LabelOf& label_of,
                           ImageListing* listing) {
  const std::string path = folder + "/val_annotations.txt";
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, LinesOf(path));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string> fields = absl::StrSplit(lines[i], '\t');
    const auto label = fields.size() < 2 ? label_of.end() : label_of.find(fields[1]);
    if (label == label_of.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", path, "', line ", i + 1, ": a file name, a tab and a known class are wanted"));
    }
    listing->items.push_back({absl::StrCat(folder, "/images/", fields[0]), label->second});
  }
  return absl::OkStatus();
}

absl::Status ListClassFolders(const std::string& folder, const LabelOf& label_of,
                              ImageListing* listing) {
  ASSIGN_OR_RETURN(const Names present, NamesIn(folder));
  for (const std::string& name : present.folders) {
    if (label_of.contains(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", folder, "/", name, "' is not one of the ", label_of.size(), " classes"));
  }
  for (size_t label = 0; label < listing->classes.size(); ++label) {
    const std::string own = absl::StrCat(folder, "/", listing->classes[label]);
    for (const std::string& place : {own, own + "/images"}) {
      if (!IsFolder(place)) continue;
      ASSIGN_OR_RETURN(const Names names, NamesIn(place));
      for (const std::string& image : names.images) {
        listing->items.push_back({absl::StrCat(place, "/", image), static_cast<int32_t>(label)});
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImageListing> ListImages(const std::string& root, DataSplit split) {
  if (!IsFolder(root)) return absl::NotFoundError(absl::StrCat("there is no folder '", root, "'"));
  ASSIGN_OR_RETURN(const std::string folder, SplitFolder(root, split));
  ImageListing listing;
  RETURN_IF_ERROR(FindClasses(root, folder, listing));
  LabelOf label_of;
  for (const std::string& name : listing.classes) {
    if (label_of.emplace(name, static_cast<int32_t>(label_of.size())).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", root, "': class '", name, "' is there twice"));
  }
  if (IsFile(folder + "/val_annotations.txt")) {
    RETURN_IF_ERROR(ListAnnotated(folder, label_of, &listing));
  } else {
    RETURN_IF_ERROR(ListClassFolders(folder, label_of, &listing));
  }
  if (listing.items.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no .jpg, .jpeg or .png files in the ",
                                                   listing.classes.size(), " class folders of '",
                                                   folder, "'"));
  }
  return listing;
}

bool LooksLikeImageTree(const std::string& root) {
  if (!IsFolder(root)) return false;
  if (IsFolder(root + "/train") || IsFolder(root + "/val") ||
      IsFile(root + "/val_annotations.txt")) {
    return true;
  }
  const auto names = NamesIn(root);
  return names.ok() && !names->folders.empty();
}

}  // namespace partita
