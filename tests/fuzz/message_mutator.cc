#include <google/protobuf/descriptor.h>

#include <limits>
#include <vector>

#include "tests/fuzz/mutator.h"

// Mutator::MutateMessage: damage to any protobuf, through its reflection.

namespace partita {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMostParts = 2000;  // messages that one is chosen from

// A message and all messages in it.
void ListParts(Message& message, std::vector<Message*>& parts) {
  if (parts.size() >= kMostParts) return;
  parts.push_back(&message);
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      ListParts(*reflection.MutableMessage(&message, field), parts);
      continue;
    }
    for (int k = 0; k < reflection.FieldSize(message, field); ++k) {
      ListParts(*reflection.MutableRepeatedMessage(&message, field, k), parts);
    }
  }
}

// A string of some field of the messages, for references between them; "" if the message chosen
// has none.
std::string AnyString(Mutator& mutator, const std::vector<Message*>& parts) {
  const Message& part = *parts[mutator.Below(parts.size())];
  const Reflection& reflection = *part.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(part, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
    if (!field->is_repeated()) return reflection.GetString(part, field);
    const auto size = static_cast<size_t>(reflection.FieldSize(part, field));
    return reflection.GetRepeatedString(part, field, static_cast<int>(mutator.Below(size)));
  }
  return "";
}

double ExtremeReal(Mutator& mutator) {
  switch (mutator.Below(6)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return std::numeric_limits<double>::infinity();
    case 2:
      return 5e-324;
    case 3:
      return -1.5;
    default:
      return static_cast<double>(mutator.ExtremeInteger());
  }
}

// One field of one message: sets a value, or adds one to a repeated field.
class FieldSetter {
 public:
  FieldSetter(Mutator& mutator, Message& message, const FieldDescriptor& field)
      : mutator_(mutator),
        message_(message),
        field_(field),
        reflection_(*message.GetReflection()) {}

  void Set(const std::string& text) {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return Put(&Reflection::SetInt32, &Reflection::AddInt32, static_cast<int32_t>(Integer()));
      case FieldDescriptor::CPPTYPE_INT64:
        return Put(&Reflection::SetInt64, &Reflection::AddInt64, Integer());
      case FieldDescriptor::CPPTYPE_UINT32:
        return Put(&Reflection::SetUInt32, &Reflection::AddUInt32,
                   static_cast<uint32_t>(Integer()));
      case FieldDescriptor::CPPTYPE_UINT64:
        return Put(&Reflection::SetUInt64, &Reflection::AddUInt64,
                   static_cast<uint64_t>(Integer()));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Put(&Reflection::SetDouble, &Reflection::AddDouble, ExtremeReal(mutator_));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Put(&Reflection::SetFloat, &Reflection::AddFloat,
                   static_cast<float>(ExtremeReal(mutator_)));
      case FieldDescriptor::CPPTYPE_BOOL:
        return Put(&Reflection::SetBool, &Reflection::AddBool, mutator_.Below(2) == 1);
      case FieldDescriptor::CPPTYPE_ENUM:
        return Put(&Reflection::SetEnumValue, &Reflection::AddEnumValue,
                   static_cast<int>(mutator_.Below(9)));
      case FieldDescriptor::CPPTYPE_STRING:
        return field_.is_repeated() ? reflection_.AddString(&message_, &field_, text)
                                    : reflection_.SetString(&message_, &field_, text);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (field_.is_repeated()) {
          reflection_.AddMessage(&message_, &field_);
        } else {
          reflection_.MutableMessage(&message_, &field_);
        }
    }
  }

 private:
  template <class Setter, class Adder, class Value>
  void Put(Setter set, Adder add, Value value) {
    if (field_.is_repeated()) {
      (reflection_.*add)(&message_, &field_, value);
    } else {
      (reflection_.*set)(&message_, &field_, value);
    }
  }
  int64_t Integer() {
    return mutator_.Below(2) == 0 ? mutator_.ExtremeInteger()
                                  : static_cast<int64_t>(mutator_.Below(9));
  }

  Mutator& mutator_;
  Message& message_;
  const FieldDescriptor& field_;
  const Reflection& reflection_;
};

void MutateRepeated(Mutator& mutator, Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  if (size == 0) return;
  const auto at = static_cast<int>(mutator.Below(static_cast<size_t>(size)));
  switch (mutator.Below(3)) {
    case 0:
      reflection.SwapElements(&message, &field, at, size - 1);
      reflection.RemoveLast(&message, &field);
      break;
    case 1:
      reflection.SwapElements(&message, &field, at, 0);
      break;
    default:
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Message* added = reflection.AddMessage(&message, &field);
        added->CopyFrom(reflection.GetRepeatedMessage(message, &field, at));
      } else {
        reflection.RemoveLast(&message, &field);
      }
      break;
  }
}

}  // namespace

void Mutator::MutateMessage(Message& message) {
  for (size_t n = 1 + Below(4); n > 0; --n) {
    std::vector<Message*> parts;
    ListParts(message, parts);
    Message& part = *parts[Below(parts.size())];
    const auto fields = static_cast<size_t>(part.GetDescriptor()->field_count());
    if (fields == 0) continue;
    const FieldDescriptor& field = *part.GetDescriptor()->field(static_cast<int>(Below(fields)));
    const size_t choice = Below(6);
    if (choice == 0) {
      part.GetReflection()->ClearField(&part, &field);
    } else if (choice < 3 && field.is_repeated()) {
      MutateRepeated(*this, part, field);
    } else {
      FieldSetter(*this, part, field).Set(AnyString(*this, parts));
    }
  }
}

}  // namespace partita
