#include "tools/cli/text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace partita {

std::string TimeText(Nanos time) {
  const auto ns = static_cast<double>(time.value());
  if (ns < 1e3) return absl::StrFormat("%.0f ns", ns);
  if (ns < 1e6) return absl::StrFormat("%.1f us", ns / 1e3);
  if (ns < 1e9) return absl::StrFormat("%.2f ms", ns / 1e6);
  return absl::StrFormat("%.3f s", ns / 1e9);
}

std::string BytesText(Bytes bytes) {
  const auto b = static_cast<double>(bytes.value());
  if (b < 1e3) return absl::StrFormat("%.0f B", b);
  if (b < 1e6) return absl::StrFormat("%.1f kB", b / 1e3);
  if (b < 1e9) return absl::StrFormat("%.1f MB", b / 1e6);
  return absl::StrFormat("%.2f GB", b / 1e9);
}

size_t OutputWidth(int file) {
  constexpr size_t kWidth = 80;
  if (isatty(file) == 0) return kWidth;
  int columns = 0;
  const char* asked = std::getenv("COLUMNS");
  winsize window{};
  if (asked == nullptr || !absl::SimpleAtoi(asked, &columns) || columns <= 0) {
    if (ioctl(file, TIOCGWINSZ, &window) == 0) columns = window.ws_col;
  }
  return columns <= 0 ? kWidth : static_cast<size_t>(std::clamp(columns, 40, 200));
}

std::string WrappedText(absl::string_view text, size_t width, size_t indent) {
  std::string wrapped;
  size_t room = width;
  while (text.size() > room) {
    // Blanks at the beginning of a line are no place to break it.
    const size_t word = std::min(text.find_first_not_of(' '), text.size());
    size_t end = text.rfind(' ', room);
    if (end == absl::string_view::npos || end <= word) end = text.find(' ', word);
    if (end == absl::string_view::npos) break;
    absl::StrAppend(&wrapped, absl::StripTrailingAsciiWhitespace(text.substr(0, end)), "\n");
    text = absl::StripLeadingAsciiWhitespace(text.substr(end));
    if (text.empty()) return wrapped;
    wrapped.append(indent, ' ');
    room = width > indent ? width - indent : 1;
  }
  return absl::StrCat(wrapped, text, "\n");
}

std::string TableText(const std::vector<std::vector<std::string>>& rows, size_t first_number) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      if (c > 0) line += "  ";
      line += c < first_number ? row[c] + space : space + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace partita
