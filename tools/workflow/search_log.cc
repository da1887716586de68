#include "tools/workflow/search_log.h"

#include "absl/strings/str_cat.h"

namespace partita {

absl::StatusOr<std::unique_ptr<SearchLog>> SearchLog::Open(const std::string& path) {
  std::unique_ptr<SearchLog> log(new SearchLog(path));
  if (!log->file_) return absl::InvalidArgumentError(absl::StrCat("cannot write '", path, "'"));
  log->file_ << "round,evaluations,chain,start,current_ns,best_ns" << std::endl;
  return log;
}

void SearchLog::Add(int round, const SearchProgress& step) {
  file_ << round << ',' << step.evaluations << ',' << step.start << ',' << step.start_name << ','
        << step.current.value() << ',' << step.best.value() << std::endl;
}

}  // namespace partita
