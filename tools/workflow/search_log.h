#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/support/file_writer.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// A CSV file with one row for each step that searches accepted, written as they come, so that an
// interrupted search leaves what it did. Its first line names the columns:
//   round        searches alternate with measuring: which search it was, from 0
//   evaluations  strategies that this search had evaluated
//   chain        which start of the search, from 0, and
//   start        its name: an expert, "random"
//   move         kind of step (planner/space/moves.h), or the search's name
//   current_ns   predicted time of a step under the strategy that was accepted (more, where memory
//                is exceeded)
//   best_ns      the same of the best so far
class SearchLog {
 public:
  // Errors name the path.
  static absl::StatusOr<std::unique_ptr<SearchLog>> Open(const std::string& path);

  void Add(int round, const SearchProgress& step);

  // Error of the first row that could not be written, after which none is. To be checked when the
  // searches are over.
  const absl::Status& status() const { return status_; }

 private:
  explicit SearchLog(FileWriter file) : file_(std::move(file)) {}
  FileWriter file_;
  absl::Status status_;
};

}  // namespace partita
