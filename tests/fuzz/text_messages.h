#pragma once

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "tests/fuzz/mutator.h"

namespace partita {

// Takes the parser's errors, which it would print otherwise.
class UnprintedErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, int /*column*/, const std::string& /*message*/) override {}
};

// Damages a protobuf in text form: by its fields where it can be read as a `Message`, else, and in a
// part of the cases, as text.
template <class Message>
std::string MutateTextMessage(Mutator& mutator, const std::string& input,
                              const std::string& other) {
  Message message;
  google::protobuf::TextFormat::Parser parser;
  UnprintedErrors errors;
  parser.RecordErrorsTo(&errors);
  if (mutator.Below(2) == 0 || !parser.ParseFromString(input, &message)) {
    return mutator.MutateText(input, other);
  }
  mutator.MutateMessage(message);
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

}  // namespace partita
