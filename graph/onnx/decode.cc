#include "graph/onnx/decode.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/status_macros.h"
#include "graph/support/utf8.h"

namespace partita::onnx {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// What decoding allocates for one sub-message and for one string, beyond the bytes themselves.
constexpr int64_t kMessageCost = 256;
constexpr int64_t kStringCost = 64;
constexpr int64_t kFixedAllowance = int64_t{256} << 20;
constexpr int kMaxDepth = 16;

// Walks the wire format by the schema without building anything.
class WireCheck {
 public:
  explicit WireCheck(absl::string_view bytes)
      : base_(bytes.data()), budget_(2 * static_cast<int64_t>(bytes.size()) + kFixedAllowance) {}

  absl::Status Check(absl::string_view bytes, const Descriptor* type, int depth) {
    if (depth > kMaxDepth) return Error("messages nest too deeply");
    std::vector<int> counts(static_cast<size_t>(type->field_count()));
    while (!bytes.empty()) {
      offset_ = bytes.data() - base_;
      uint64_t tag = 0;
      if (!TakeVarint(&bytes, &tag)) return Error("the bytes end within a field's tag");
      if (tag >> 3 == 0 || tag >> 32 != 0) return Error("no field has this tag");
      const FieldDescriptor* field = type->FindFieldByNumber(static_cast<int>(tag >> 3));
      if (field != nullptr) {
        const int index = counts[static_cast<size_t>(field->index())]++;
        path_.push_back(field->is_repeated() ? absl::StrCat(field->name(), "[", index, "]")
                                             : field->name());
      } else {
        path_.push_back(absl::StrCat("field ", tag >> 3));
      }
      RETURN_IF_ERROR(CheckField(&bytes, static_cast<int>(tag & 7), field, depth));
      if (budget_ < 0) return Error("the file holds far more parts than a model of its size has");
      path_.pop_back();
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckField(absl::string_view* bytes, int wire_type, const FieldDescriptor* field,
                          int depth) {
    uint64_t value = 0;
    switch (wire_type) {
      case 0:
        budget_ -= field == nullptr ? kStringCost : 16;
        if (!TakeVarint(bytes, &value)) return Error("the bytes end within a number");
        return absl::OkStatus();
      case 1:
      case 5: {
        const size_t width = wire_type == 1 ? 8 : 4;
        budget_ -= field == nullptr ? kStringCost : 16;
        if (bytes->size() < width) return Error("the bytes end within a number");
        bytes->remove_prefix(width);
        return absl::OkStatus();
      }
      case 2: {
        if (!TakeVarint(bytes, &value)) return Error("the bytes end within a length");
        if (value > bytes->size()) {
          return Error(absl::StrCat("its length is ", value, " bytes, but ", bytes->size(),
                                    " are left (a truncated file?)"));
        }
        const absl::string_view content = bytes->substr(0, value);
        bytes->remove_prefix(value);
        return CheckContent(content, field, depth);
      }
      default:
        return Error(absl::StrCat("wire type ", wire_type, " does not occur in ONNX"));
    }
  }

  absl::Status CheckContent(absl::string_view content, const FieldDescriptor* field, int depth) {
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      budget_ -= kMessageCost;
      return Check(content, field->message_type(), depth + 1);
    }
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_STRING && !IsUtf8(content)) {
      return Error("it is not UTF-8");
    }
    // Packed integers take up to eight bytes for one in the file.
    const bool integers = field != nullptr && field->is_packable() &&
                          field->type() != FieldDescriptor::TYPE_FLOAT &&
                          field->type() != FieldDescriptor::TYPE_DOUBLE;
    budget_ -= static_cast<int64_t>(content.size()) * (integers ? 8 : 1) + kStringCost;
    return absl::OkStatus();
  }

  static bool TakeVarint(absl::string_view* bytes, uint64_t* value) {
    *value = 0;
    for (size_t i = 0; i < 10 && i < bytes->size(); ++i) {
      const auto byte = static_cast<uint8_t>((*bytes)[i]);
      *value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) {
        bytes->remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }

  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("byte ", offset_, path_.empty() ? "" : ", ",
                                                   absl::StrJoin(path_, "."), ": ", what));
  }

  const char* base_;
  int64_t budget_;
  int64_t offset_ = 0;
  std::vector<std::string> path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelProto>> DecodeModel(absl::string_view bytes,
                                                        const std::string& name) {
  const auto error = [&name](const absl::Status& status) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is not an ONNX model: ", status.message()));
  };
  if (static_cast<int64_t>(bytes.size()) >= kMaxModelBytes) {
    return error(absl::InvalidArgumentError(
        absl::StrCat("it has ", bytes.size(),
                     " bytes; ONNX files are smaller than 2 GiB and keep "
                     "larger weights in a side file")));
  }
  if (bytes.empty()) return error(absl::InvalidArgumentError("it is empty"));
  if (absl::Status status = WireCheck(bytes).Check(bytes, ModelProto::descriptor(), 0);
      !status.ok()) {
    return error(status);
  }
  auto model = std::make_unique<ModelProto>();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxDepth);
  if (!model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return error(absl::InvalidArgumentError("a field has the wrong type"));
  }
  return model;
}

}  // namespace partita::onnx
