#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace partita {

// Subject of an error, for whoever has to act on it; its number is the program's exit code. An
// error carries its category from where it arises, beside the code of its status, which says to
// callers what happened: an expert that declines and a profile of other hardware are both
// FailedPrecondition, and end the program differently.
enum class ErrorCategory : uint8_t {
  kCheckFailed = 1,  // what was computed is not finite, or not what it should be
  kUsage = 2,        // what was asked for cannot be, and no file is to blame
  kInput = 3,        // an input file is absent, bad or of something else
  kMemory = 4,       // what is wanted does not fit in memory, or the system refuses some
  kSystem = 5,       // devices, communication or the system fail
  kForeignProfile = 7,
  kInterrupted = 130,
};

struct ErrorCategoryRow {
  ErrorCategory category;
  absl::string_view description;
};
// All of them, in the order of their exit codes.
std::span<const ErrorCategoryRow> ErrorCategories();

// The error with this category, in place of another that it may carry. `error` is not OK.
absl::Status WithCategory(ErrorCategory category, absl::Status error);

// The category that an error carries. Of one that carries none it follows from the code:
//   InvalidArgument, NotFound, AlreadyExists, PermissionDenied, Unimplemented, DataLoss
//                  kInput: what was read is at fault
//   ResourceExhausted
//                  kMemory: where there is no memory to say more
//   all others     kSystem
ErrorCategory CategoryOf(const absl::Status& error);
// 0 for OK, else the number of the category.
int ExitCodeOf(const absl::Status& status);

// The same error with another message: code, category and all else that it carries stay.
absl::Status WithMessage(const absl::Status& error, absl::string_view message);

// Errors of a category. Those whose codes have no category of their own by the rule above
// (FailedPrecondition, ResourceExhausted, OutOfRange, Cancelled) are made here only.
absl::Status UsageError(absl::string_view message);     // InvalidArgument, kUsage
absl::Status DeclinedError(absl::string_view message);  // FailedPrecondition, kUsage: what was
                                                        // asked for makes no sense here
absl::Status MemoryError(absl::string_view message);    // ResourceExhausted, kMemory
absl::Status ForeignProfileError(absl::string_view message);  // FailedPrecondition, kForeignProfile
absl::Status NotFiniteError(absl::string_view message);       // OutOfRange, kCheckFailed
absl::Status InterruptedError(absl::string_view message);     // Cancelled, kInterrupted
absl::Status AbandonedError(absl::string_view message);       // Cancelled, kSystem: given up since
                                                              // something else failed
absl::Status EndError(absl::string_view message);  // OutOfRange, kSystem: nothing is left

// InvalidArgument, kInput: the parts joined as its message.
template <class... Parts>
absl::Status InvalidInput(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

bool IsUsageError(const absl::Status& status);
bool IsInterrupted(const absl::Status& status);

}  // namespace partita
