#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Return early with an error.

#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status _status = (expression); !_status.ok()) return _status; \
  } while (false)

#define PARTITA_CONCAT_INNER(a, b) a##b
#define PARTITA_CONCAT(a, b) PARTITA_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(left, expression) \
  ASSIGN_OR_RETURN_IMPL(PARTITA_CONCAT(_status_or_, __LINE__), left, expression)
#define ASSIGN_OR_RETURN_IMPL(name, left, expression) \
  auto name = (expression);                           \
  if (!name.ok()) return std::move(name).status();    \
  left = *std::move(name)
