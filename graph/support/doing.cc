#include "graph/support/doing.h"

#include <algorithm>
#include <exception>

// A scope that an exception leaves is gone before it is caught: the innermost one leaves its text
// behind. The next one to begin forgets it, as the exception has been dealt with.

namespace partita {
namespace {

thread_local const Doing* innermost = nullptr;
thread_local Doing::Text left_behind;

void Append(absl::string_view piece, Doing::Text& text) {
  const size_t used = absl::string_view(text).size();
  const size_t count = std::min(piece.size(), sizeof text.chars - 1 - used);
  std::copy_n(piece.begin(), count, text.chars + used);
  text.chars[used + count] = '\0';
}

}  // namespace

Doing::Doing(absl::string_view what, absl::string_view subject)
    : outer_(innermost), exceptions_(std::uncaught_exceptions()) {
  Append(what, text_);
  if (!subject.empty()) {
    Append(" '", text_);
    Append(subject, text_);
    Append("'", text_);
  }
  innermost = this;
  left_behind = Text();
}

Doing::~Doing() {
  const bool thrown = std::uncaught_exceptions() > exceptions_;
  if (thrown && absl::string_view(left_behind).empty()) left_behind = text_;
  innermost = outer_;
}

Doing::Text Doing::Now() { return innermost == nullptr ? Text() : innermost->text_; }

Doing::Text Doing::WhereThrown() {
  const Text text = absl::string_view(left_behind).empty() ? Now() : left_behind;
  left_behind = Text();
  return text;
}

}  // namespace partita
