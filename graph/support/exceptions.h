#pragma once

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace partita {

// Errors are absl::Status; exceptions come from the standard library and from other libraries, at
// any place. They are caught where a thread begins, `main` included, and where other threads wait
// for the one that was thrown out.

// The end of messages about refused memory.
constexpr char kMoreMemory[] =
    "; more may be allowed by ulimit -v or the control group's memory.max";

// ResourceExhausted: the system refuses memory while `doing`, which may be empty.
absl::Status OutOfMemory(absl::string_view doing);

// Status of the exception that is being handled, with the operation under way (see Doing): memory
// that is refused is ResourceExhausted, threads and devices that are refused are Unavailable, of a
// file what FileError makes of it, and all else is Internal. Never throws; where there is no memory
// for a message, the message is empty.
absl::Status StatusOfException() noexcept;

// Returns what `call` does, an absl::Status or StatusOr (OK where it returns nothing), or the
// status of what it throws.
template <class Call>
auto Catching(Call&& call) {
  using Result = std::invoke_result_t<Call>;
  if constexpr (std::is_void_v<Result>) {
    try {
      std::forward<Call>(call)();
      return absl::OkStatus();
    } catch (...) {
      return StatusOfException();
    }
  } else {
    try {
      return std::forward<Call>(call)();
    } catch (...) {
      return Result(StatusOfException());
    }
  }
}

}  // namespace partita
