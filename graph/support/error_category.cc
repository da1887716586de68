#include "graph/support/error_category.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/support/check.h"

namespace partita {
namespace {

constexpr char kPayload[] = "partita/category";

constexpr ErrorCategoryRow kCategories[] = {
    {ErrorCategory::kCheckFailed, "a check failed"},
    {ErrorCategory::kUsage, "wrong usage, unknown names and experts that decline included"},
    {ErrorCategory::kInput, "absent, bad or mismatched input file"},
    {ErrorCategory::kMemory, "does not fit in memory, or the system refuses some"},
    {ErrorCategory::kSystem, "device or communication failure, hangs and refused threads included"},
    {ErrorCategory::kForeignProfile, "foreign profile"},
    {ErrorCategory::kInterrupted, "interrupted, with what was found kept"},
};

absl::Status Make(ErrorCategory category, absl::StatusCode code, absl::string_view message) {
  return WithCategory(category, absl::Status(code, message));
}

}  // namespace

std::span<const ErrorCategoryRow> ErrorCategories() { return kCategories; }

absl::Status WithCategory(ErrorCategory category, absl::Status error) {
  CHECK(!error.ok());
  error.SetPayload(kPayload,
                   absl::Cord(absl::string_view(absl::StrCat(static_cast<int>(category)))));
  return error;
}

ErrorCategory CategoryOf(const absl::Status& error) {
  if (const auto carried = error.GetPayload(kPayload); carried.has_value()) {
    int number = 0;
    if (absl::SimpleAtoi(std::string(*carried), &number)) return ErrorCategory(number);
  }
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss:
      return ErrorCategory::kInput;
    case absl::StatusCode::kResourceExhausted:
      return ErrorCategory::kMemory;
    default:
      return ErrorCategory::kSystem;
  }
}

int ExitCodeOf(const absl::Status& status) {
  return status.ok() ? 0 : static_cast<int>(CategoryOf(status));
}

absl::Status WithMessage(const absl::Status& error, absl::string_view message) {
  absl::Status renamed(error.code(), message);
  error.ForEachPayload([&renamed](absl::string_view type, const absl::Cord& payload) {
    renamed.SetPayload(type, payload);
  });
  return renamed;
}

absl::Status UsageError(absl::string_view message) {
  return Make(ErrorCategory::kUsage, absl::StatusCode::kInvalidArgument, message);
}
absl::Status DeclinedError(absl::string_view message) {
  return Make(ErrorCategory::kUsage, absl::StatusCode::kFailedPrecondition, message);
}
absl::Status MemoryError(absl::string_view message) {
  return Make(ErrorCategory::kMemory, absl::StatusCode::kResourceExhausted, message);
}
absl::Status ForeignProfileError(absl::string_view message) {
  return Make(ErrorCategory::kForeignProfile, absl::StatusCode::kFailedPrecondition, message);
}
absl::Status NotFiniteError(absl::string_view message) {
  return Make(ErrorCategory::kCheckFailed, absl::StatusCode::kOutOfRange, message);
}
absl::Status InterruptedError(absl::string_view message) {
  return Make(ErrorCategory::kInterrupted, absl::StatusCode::kCancelled, message);
}
absl::Status AbandonedError(absl::string_view message) {
  return Make(ErrorCategory::kSystem, absl::StatusCode::kCancelled, message);
}
absl::Status EndError(absl::string_view message) {
  return Make(ErrorCategory::kSystem, absl::StatusCode::kOutOfRange, message);
}

bool IsUsageError(const absl::Status& status) {
  return !status.ok() && CategoryOf(status) == ErrorCategory::kUsage;
}
bool IsInterrupted(const absl::Status& status) {
  return !status.ok() && CategoryOf(status) == ErrorCategory::kInterrupted;
}

}  // namespace partita
