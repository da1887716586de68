#include "graph/model/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

using Json = nlohmann::json;

struct Width {
  const char* dtype;
  int64_t bytes;
};

constexpr std::array<Width, 15> kWidths = {{{"F64", 8},
                                            {"I64", 8},
                                            {"U64", 8},
                                            {"F32", 4},
                                            {"I32", 4},
                                            {"U32", 4},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I16", 2},
                                            {"U16", 2},
                                            {"I8", 1},
                                            {"U8", 1},
                                            {"BOOL", 1},
                                            {"F8_E4M3", 1},
                                            {"F8_E5M2", 1}}};

// Of a name in a message, in bytes.
constexpr size_t kLongestQuoted = 100;

// Receives the parser's events. The place in the document is one of five: before it (depth 0), in
// the top object (1), in an object of a tensor or of the metadata (2), in an array of such an
// object (3). Each event either fits its place or ends the parse by returning false with `error`
// set.
class HeaderReader {
 public:
  SafetensorsHeader header;
  std::string error;

  bool start_object(size_t) {
    if (depth_ == 0) return Enter();
    if (depth_ != 1) return Fail("an object where a value is wanted");
    entry_ = SafetensorsEntry{.name = top_key_, .dtype = {}, .shape = {}};
    offsets_.clear();
    members_.clear();
    return Enter();
  }

  bool end_object() {
    --depth_;
    if (depth_ != 1 || InMetadata()) return true;
    for (const char* member : {"dtype", "shape", "data_offsets"}) {
      if (!members_.contains(member)) return Fail(absl::StrCat("no member '", member, "'"));
    }
    if (offsets_.size() != 2) {
      return Fail(absl::StrCat("'data_offsets' has ", offsets_.size(), " numbers; two are wanted"));
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (!CheckSize()) return false;
    header.tensors.emplace(top_key_, std::move(entry_));
    return true;
  }

  bool key(std::string& name) {
    if (depth_ == 1) {
      top_key_ = name;
      if (InMetadata() ? seen_metadata_ : header.tensors.contains(name)) {
        return Fail("the name is there twice");
      }
      seen_metadata_ = seen_metadata_ || InMetadata();
      return true;
    }
    member_ = name;
    if (InMetadata()) return true;
    if (name != "dtype" && name != "shape" && name != "data_offsets") {
      return Fail(absl::StrCat("unknown member '", name, "'"));
    }
    if (!members_.insert(name).second) return Fail(absl::StrCat("member '", name, "' twice"));
    return true;
  }

  bool start_array(size_t) {
    if (depth_ != 2 || InMetadata() || member_ == "dtype")
      return Fail("an array is not wanted here");
    return Enter();
  }

  bool end_array() {
    --depth_;
    return true;
  }

  bool string(std::string& value) {
    if (depth_ == 2 && InMetadata()) {
      if (header.metadata.emplace(member_, value).second) return true;
      return Fail(absl::StrCat("metadata '", member_, "' twice"));
    }
    if (depth_ != 2 || member_ != "dtype") return Fail("a string is not wanted here");
    entry_.dtype = value;
    return true;
  }

  bool number_integer(int64_t) { return Fail("a negative number"); }

  bool number_unsigned(uint64_t value) {
    if (depth_ != 3) return Fail("a number is not wanted here");
    if (value > static_cast<uint64_t>(INT64_MAX)) return Fail("a number is too large");
    std::vector<int64_t>& list = member_ == "shape" ? entry_.shape : offsets_;
    if (list.size() >= kMaxSafetensorsRank)
      return Fail(absl::StrCat("'", member_, "' is too long"));
    list.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool null() { return Fail("null is not wanted here"); }
  bool boolean(bool) { return Fail("a truth value is not wanted here"); }
  bool number_float(double, const std::string&) { return Fail("a number that is not an integer"); }
  bool binary(Json::binary_t&) { return Fail("binary data"); }
  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    return Fail(absl::StrCat("not JSON at byte ", position, " of the header"));
  }

 private:
  bool InMetadata() const { return top_key_ == "__metadata__"; }

  bool Enter() {
    ++depth_;
    return true;
  }

  bool Fail(const std::string& what) {
    const std::string name = top_key_.substr(0, kLongestQuoted);
    error = name.empty() ? what : absl::StrCat("tensor '", name, "': ", what);
    error.resize(std::min(error.size(), 3 * kLongestQuoted));
    return false;
  }

  bool CheckSize() {
    if (entry_.begin > entry_.end) {
      return Fail(
          absl::StrCat("data_offsets [", entry_.begin, ", ", entry_.end, "] run backwards"));
    }
    const int64_t bytes = entry_.end - entry_.begin;
    int64_t wanted = SafetensorsWidth(entry_.dtype).value_or(1);
    const bool empty = std::ranges::count(entry_.shape, 0) > 0;
    for (int64_t extent : entry_.shape) {
      if (!empty && __builtin_mul_overflow(wanted, extent, &wanted)) {
        return Fail("the shape's size overflows");
      }
    }
    if (empty) wanted = 0;
    if (!SafetensorsWidth(entry_.dtype) || bytes == wanted) return true;
    return Fail(absl::StrCat(entry_.dtype, " of its shape takes ", wanted,
                             " bytes, its data_offsets hold ", bytes));
  }

  int depth_ = 0;
  std::string top_key_;
  std::string member_;
  bool seen_metadata_ = false;
  SafetensorsEntry entry_;
  std::vector<int64_t> offsets_;
  std::set<std::string> members_;
};

absl::Status BadFile(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not a safetensors file: ", what));
}

// The tensors' bytes are used exactly once each: [0, size) in order of their beginnings.
absl::Status CheckCover(const std::string& path, const SafetensorsHeader& header, int64_t size) {
  std::vector<const SafetensorsEntry*> order;
  for (const auto& [name, entry] : header.tensors) order.push_back(&entry);
  std::ranges::sort(order, {},
                    [](const SafetensorsEntry* e) { return std::pair(e->begin, e->end); });
  int64_t done = 0;
  for (const SafetensorsEntry* entry : order) {
    const std::string name = entry->name.substr(0, 100);
    if (entry->end > size) {
      return BadFile(path,
                     absl::StrCat("tensor '", name, "' ends at byte ", entry->end,
                                  " of the data, which has ", size, "; is the file cut off?"));
    }
    if (entry->begin != done) {
      return BadFile(path,
                     absl::StrCat("tensor '", name, "' begins at byte ", entry->begin,
                                  ", the one before ends at ", done,
                                  entry->begin < done ? ": they overlap" : ": there is a hole"));
    }
    done = entry->end;
  }
  if (done == size) return absl::OkStatus();
  return BadFile(path,
                 absl::StrCat("its tensors end at byte ", done, " of the data, which has ", size));
}

}  // namespace

int64_t SafetensorsEntry::elements() const {
  if (std::ranges::count(shape, 0) > 0) return 0;
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

std::optional<int64_t> SafetensorsWidth(const std::string& dtype) {
  for (const Width& width : kWidths) {
    if (dtype == width.dtype) return width.bytes;
  }
  return std::nullopt;
}

absl::StatusOr<const SafetensorsEntry*> SafetensorsHeader::Find(const std::string& name,
                                                                const std::string& file) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return &found->second;
  std::string some;
  int listed = 0;
  for (const auto& [other, entry] : tensors) {
    if (++listed > 8) {
      absl::StrAppend(&some, ", ... (", tensors.size(), " in all)");
      break;
    }
    absl::StrAppend(&some, some.empty() ? "'" : ", '", other.substr(0, kLongestQuoted), "'");
  }
  return absl::NotFoundError(absl::StrCat("'", file, "' has no tensor '", name, "'; it has ",
                                          some.empty() ? "none" : some));
}

absl::StatusOr<int64_t> SafetensorsHeaderLength(absl::string_view prefix, int64_t size,
                                                const std::string& file) {
  if (prefix.size() < kSafetensorsPrefix) {
    return BadFile(file, absl::StrCat("it has ", prefix.size(), " bytes, at least 8 are wanted"));
  }
  uint64_t length = 0;
  std::memcpy(&length, prefix.data(), kSafetensorsPrefix);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    return BadFile(file, absl::StrCat("it says that its header has ", length, " bytes; at most ",
                                      kMaxSafetensorsHeader, " are read"));
  }
  const int64_t follow = size - static_cast<int64_t>(kSafetensorsPrefix);
  if (static_cast<int64_t>(length) > follow) {
    return BadFile(file, absl::StrCat("it says that its header has ", length, " bytes, but only ",
                                      follow, " follow; is the file cut off?"));
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json, int64_t size,
                                                         const std::string& file) {
  HeaderReader reader;
  if (!Json::sax_parse(json.begin(), json.end(), &reader)) return BadFile(file, reader.error);
  SafetensorsHeader header = std::move(reader.header);
  header.data = static_cast<int64_t>(kSafetensorsPrefix + json.size());
  RETURN_IF_ERROR(CheckCover(file, header, size - header.data));
  return header;
}

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const DataFile& file) {
  std::string text(static_cast<size_t>(std::min<int64_t>(file.size(), kSafetensorsPrefix)), '\0');
  RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span(text))));
  ASSIGN_OR_RETURN(const int64_t length, SafetensorsHeaderLength(text, file.size(), file.path()));
  text.resize(static_cast<size_t>(length));
  RETURN_IF_ERROR(file.Read(kSafetensorsPrefix, std::as_writable_bytes(std::span(text))));
  return ParseSafetensorsHeader(text, file.size(), file.path());
}

}  // namespace partita
