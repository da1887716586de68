#include "graph/support/number_in.h"

#include <fstream>
#include <string>

#include "absl/strings/numbers.h"

namespace partita {

int64_t NumberIn(const char* path, absl::string_view key) {
  std::ifstream file(path);
  std::string word;
  int64_t number = 0;
  while (!key.empty() && word != key && file >> word) continue;
  return file >> word && absl::SimpleAtoi(word, &number) ? number : 0;
}

}  // namespace partita
