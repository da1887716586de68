#include "runtime/train/data/safetensors_header.h"

#include <algorithm>
#include <array>
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

}  // namespace

std::optional<int64_t> SafetensorsWidth(const std::string& dtype) {
  for (const Width& width : kWidths) {
    if (dtype == width.dtype) return width.bytes;
  }
  return std::nullopt;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         const std::string& file) {
  HeaderReader reader;
  const bool good = Json::sax_parse(json.begin(), json.end(), &reader);
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", file, "' is not a safetensors file: ", reader.error));
  }
  return std::move(reader.header);
}

}  // namespace partita
