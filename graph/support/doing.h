#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace partita {

// Names what the calling thread is doing, for the messages about what can go wrong at any place:
// memory or threads that are refused. The innermost one counts. Allocates nothing.
class Doing {
 public:
  // "reading model", "net.onnx" -> "reading model 'net.onnx'". Copied; cut off where it is long.
  explicit Doing(absl::string_view what, absl::string_view subject = {});
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  // Empty where nothing was said.
  struct Text {
    char chars[192] = "";
    operator absl::string_view() const { return chars; }
  };
  static Text Now();
  // The text at the place where the exception that is being handled was thrown. Asked once for
  // each.
  static Text WhereThrown();

 private:
  Text text_;
  const Doing* const outer_;
  const int exceptions_;  // exceptions in flight when this began
};

}  // namespace partita
