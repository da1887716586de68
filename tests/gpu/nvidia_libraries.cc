#include "tests/gpu/nvidia_libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

// In the order in which they need each other.
constexpr const char* kLibraries[] = {"libcublasLt.so", "libcudnn.so", "libnccl.so"};

// The folder, then FOLDER/*/lib and FOLDER/*/lib64 in the order of their names.
std::vector<fs::path> PlacesIn(const fs::path& folder) {
  std::vector<fs::path> below;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    for (const char* lib : {"lib", "lib64"}) {
      if (fs::is_directory(entry.path() / lib, ignored)) below.push_back(entry.path() / lib);
    }
  }
  std::sort(below.begin(), below.end());
  below.insert(below.begin(), folder);
  return below;
}

// FOLDER/NAME.MAJOR, the highest; empty if there is none.
fs::path FileIn(const fs::path& folder, const std::string& name) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename();
    const std::string prefix = absl::StrCat(name, ".");
    if (!absl::StartsWith(file, prefix)) continue;
    if (file.find('.', prefix.size()) == std::string::npos) found.push_back(entry.path());
  }
  return found.empty() ? fs::path() : *std::max_element(found.begin(), found.end());
}

}  // namespace

std::vector<std::string> OpenNvidiaLibraries(const std::vector<std::string>& folders) {
  std::vector<fs::path> places;
  for (const std::string& folder : folders) {
    const std::vector<fs::path> more = PlacesIn(folder);
    places.insert(places.end(), more.begin(), more.end());
  }
  std::vector<std::string> opened;
  for (const char* name : kLibraries) {
    for (const fs::path& place : places) {
      const fs::path file = FileIn(place, name);
      if (file.empty() || dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) continue;
      opened.push_back(file);
      break;
    }
  }
  return opened;
}

}  // namespace partita
