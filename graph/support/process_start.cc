#include "graph/support/process_start.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace partita {

// The 22nd word of the process's line; the second is a name in brackets that may hold anything.
std::optional<int64_t> ProcessStart(int64_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/stat"));
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> words =
      absl::StrSplit(line.substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStart = 22 - 3;
  int64_t start = 0;
  if (words.size() <= kStart || !absl::SimpleAtoi(words[kStart], &start)) return std::nullopt;
  return start;
}

}  // namespace partita
