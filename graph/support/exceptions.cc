#include "graph/support/exceptions.h"

#include <errno.h>

#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"

namespace partita {

absl::Status OutOfMemory(absl::string_view doing) {
  const absl::string_view link = doing.empty() ? "" : " while ";
  return MemoryError(absl::StrCat("out of memory", link, doing, kMoreMemory));
}

namespace {

constexpr char kMoreThreads[] =
    "; more may be allowed by ulimit -u or the control group's pids.max, or, as each needs address "
    "space for its stack, by ulimit -v";

std::string While(absl::string_view doing) {
  return doing.empty() ? std::string() : absl::StrCat(" while ", doing);
}

absl::Status OfSystem(const std::system_error& error, absl::string_view doing) {
  const int code = error.code().value();
  if (code == ENOMEM) return OutOfMemory(doing);
  // What std::thread throws.
  if (code == EAGAIN) {
    return absl::UnavailableError(
        absl::StrCat("the system allows no further thread", While(doing), kMoreThreads));
  }
  return absl::UnavailableError(absl::StrCat(error.what(), While(doing)));
}

absl::Status OfFile(const std::filesystem::filesystem_error& error, absl::string_view doing) {
  if (error.code() == std::errc::not_enough_memory) return OutOfMemory(doing);
  errno = error.code().value();
  return FileError(absl::StrCat("go on", While(doing), " with"), error.path1().string());
}

absl::Status Describe(absl::string_view doing) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return OutOfMemory(doing);
  } catch (const std::length_error&) {  // more elements than an address space holds
    return OutOfMemory(doing);
  } catch (const std::filesystem::filesystem_error& error) {
    return OfFile(error, doing);
  } catch (const std::system_error& error) {
    return OfSystem(error, doing);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unforeseen", While(doing), ": ", error.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat("unforeseen", While(doing)));
  }
}

}  // namespace

absl::Status StatusOfException() noexcept {
  const Doing::Text doing = Doing::WhereThrown();
  try {
    return Describe(doing);
  } catch (...) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

}  // namespace partita
