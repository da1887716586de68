#include "tools/cli/text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace partita {
namespace {

using Cells = std::vector<std::string>;

// Whether the blank at `at` is between a number and its unit.
bool IsBeforeUnit(absl::string_view text, size_t at) {
  constexpr absl::string_view kUnits[] = {"%",  "ns", "us", "ms", "s",   "min", "h",  "B",
                                          "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB"};
  if (at == 0 || !absl::ascii_isdigit(static_cast<unsigned char>(text[at - 1]))) return false;
  const absl::string_view behind = text.substr(at + 1);
  const auto word = std::find_if(behind.begin(), behind.end(), [](char c) {
    return c != '%' && !absl::ascii_isalpha(static_cast<unsigned char>(c));
  });
  const absl::string_view unit = behind.substr(0, static_cast<size_t>(word - behind.begin()));
  return std::find(std::begin(kUnits), std::end(kUnits), unit) != std::end(kUnits);
}

// The last blank up to `room` where a line may end; npos: none.
size_t LastBreak(absl::string_view text, size_t room) {
  size_t at = text.rfind(' ', room);
  while (at != absl::string_view::npos && IsBeforeUnit(text, at)) {
    at = at == 0 ? absl::string_view::npos : text.rfind(' ', at - 1);
  }
  return at;
}

// Whether a line holds what people copy: a command or a path.
bool IsToCopy(absl::string_view line) {
  constexpr absl::string_view kBefore[] = {"next:", "or:", "Try:", "written:", "kept:"};
  return std::any_of(std::begin(kBefore), std::end(kBefore),
                     [&](absl::string_view before) { return absl::StartsWith(line, before); });
}

// Long cells of the first column, where a table is too wide.
constexpr size_t kFirstColumn = 24;
// The least that is left to a last column that wraps.
constexpr size_t kLastColumn = 24;

// Rows of cells on their way to text (TableText).
class Table {
 public:
  Table(const std::vector<Cells>& rows, size_t first_number, size_t width)
      : first_number_(first_number), width_(width) {
    if (rows.empty()) return;
    AddHeading(rows[0]);
    rows_.insert(rows_.end(), rows.begin() + 1, rows.end());
    for (const Cells& row : rows_) {
      widths_.resize(std::max(widths_.size(), row.size()), 0);
      for (size_t c = 0; c < row.size(); ++c) widths_[c] = std::max(widths_[c], row[c].size());
    }
    for (Cells& row : rows_) row.resize(widths_.size());
  }

  std::string Text() {
    if (widths_.empty()) return "";
    std::vector<size_t> all(widths_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    if (WidthOf(all) <= width_ || widths_.size() == 1) return Block(all);
    if (first_number_ >= widths_.size()) return WithLastWrapped(all);
    widths_[0] = std::min(widths_[0], kFirstColumn);
    // As many tables as are needed, with about as many columns each.
    const size_t tables = Groups(widths_.size()).size();
    std::string text;
    for (const auto& columns : Groups((widths_.size() - 1 + tables - 1) / tables)) {
      absl::StrAppend(&text, text.empty() ? "" : "\n", Block(columns));
    }
    return text;
  }

 private:
  // Its lines end at the rows below.
  void AddHeading(const Cells& heading) {
    size_t lines = 1;
    std::vector<std::vector<std::string>> split;
    for (const std::string& cell : heading) {
      split.push_back(absl::StrSplit(cell, '\n'));
      lines = std::max(lines, split.back().size());
    }
    heading_ = lines;
    for (size_t line = 0; line < lines; ++line) {
      Cells& row = rows_.emplace_back();
      for (const auto& cell : split) {
        const size_t blank = lines - cell.size();
        row.push_back(line < blank ? "" : cell[line - blank]);
      }
    }
  }

  // The first column with each time as many of the others as fit, at most `most`.
  std::vector<std::vector<size_t>> Groups(size_t most) const {
    std::vector<std::vector<size_t>> groups;
    for (size_t next = 1; next < widths_.size(); ++next) {
      const bool is_full = groups.empty() || groups.back().size() > most;
      std::vector<size_t> longer = is_full ? std::vector<size_t>{0} : groups.back();
      longer.push_back(next);
      if (is_full) {
        groups.push_back(longer);
      } else if (WidthOf(longer) <= width_) {
        groups.back() = longer;
      } else {
        groups.push_back({0, next});
      }
    }
    return groups;
  }

  size_t WidthOf(const std::vector<size_t>& columns) const {
    size_t width = 2 * (columns.size() - 1);
    for (size_t c : columns) width += widths_[c];
    return width;
  }

  std::string Line(const Cells& row, const std::vector<size_t>& columns) const {
    std::string line;
    for (size_t c : columns) {
      const std::string space(widths_[c] - std::min(widths_[c], row[c].size()), ' ');
      if (c != columns.front()) line += "  ";
      line += c < first_number_ ? row[c] + space : space + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  std::string Block(const std::vector<size_t>& columns) const {
    std::string text;
    for (size_t r = 0; r < rows_.size(); ++r) {
      Cells row = rows_[r];
      if (row[0].size() > widths_[0]) {
        absl::StrAppend(&text, row[0], "\n");
        row[0].clear();
      }
      const std::string line = Line(row, columns);
      // Of a heading as many lines as these columns need.
      if (r >= heading_ || line != "\n") text += line;
    }
    return text;
  }

  std::string WithLastWrapped(std::vector<size_t> columns) const {
    const size_t last = columns.back();
    columns.pop_back();
    const size_t before = columns.empty() ? 0 : WidthOf(columns) + 2;
    const bool beside = before + kLastColumn <= width_;
    std::string text;
    for (const Cells& row : rows_) {
      std::string lead = columns.empty() ? "" : Line(row, columns);
      if (!lead.empty()) lead.pop_back();
      if (row[last].empty()) {
        absl::StrAppend(&text, lead, "\n");
      } else if (beside) {
        lead.resize(before, ' ');
        text += WrappedText(lead + row[last], width_, before);
      } else {
        absl::StrAppend(&text, lead, "\n", WrappedText("    " + row[last], width_, 4));
      }
    }
    return text;
  }

  const size_t first_number_, width_;
  size_t heading_ = 0;  // rows of it
  std::vector<Cells> rows_;
  std::vector<size_t> widths_;
};

}  // namespace

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
    size_t end = LastBreak(text, room);
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

std::string WrappedLines(absl::string_view text, size_t width) {
  constexpr size_t kIndent = 2;
  std::string wrapped;
  const bool ends_open = !absl::EndsWith(text, "\n");
  if (!ends_open) text.remove_suffix(1);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    const bool is_long = line.size() > width && !IsToCopy(line.substr(blanks));
    wrapped += is_long ? WrappedText(line, width, blanks + kIndent) : absl::StrCat(line, "\n");
  }
  if (ends_open) wrapped.pop_back();
  return wrapped;
}

std::string TextFor(absl::string_view text, int file) {
  return isatty(file) == 0 ? std::string(text) : WrappedLines(text, OutputWidth(file));
}

std::string TableText(const std::vector<std::vector<std::string>>& rows, size_t first_number,
                      size_t width) {
  return Table(rows, first_number, width).Text();
}

std::string ByteUnit::In(Bytes number) const {
  const double share = static_cast<double>(number.value()) / bytes;
  if (bytes == 1) return absl::StrFormat("%.0f", share);
  if (share > 0 && share < 0.05) return "<0.1";
  return absl::StrFormat("%.1f", share);
}

ByteUnit UnitFor(Bytes largest) {
  const auto bytes = static_cast<double>(largest.value());
  if (bytes < 1e4) return {"B", 1};
  if (bytes < 1e7) return {"kB", 1e3};
  return bytes < 1e11 ? ByteUnit{"MB", 1e6} : ByteUnit{"GB", 1e9};
}

std::string ShellWord(absl::string_view text) {
  const auto is_plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("_@%+=:,./-").find(c) != absl::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string ShellPath(const std::string& path) {
  return ShellWord(path.starts_with("-") ? "./" + path : path);
}

}  // namespace partita
