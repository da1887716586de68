#include "tools/workflow/search_log.h"

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::StatusOr<std::unique_ptr<SearchLog>> SearchLog::Open(const std::string& path) {
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::OpenAsItComes(path));
  RETURN_IF_ERROR(file.Write("round,evaluations,chain,start,move,current_ns,best_ns\n"));
  return std::unique_ptr<SearchLog>(new SearchLog(std::move(file)));
}

void SearchLog::Add(int round, const SearchProgress& step) {
  if (!status_.ok()) return;
  status_ = file_.Write(absl::StrCat(round, ",", step.evaluations, ",", step.start, ",",
                                     step.start_name, ",", step.move, ",", step.current.value(),
                                     ",", step.best.value(), "\n"));
}

}  // namespace partita
