#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace partita {

struct ProcessLimits {
  double seconds = 0;  // of the wall clock; 0: none
  int64_t bytes = 0;   // of address space; 0: none
};

struct ProcessEnd {
  enum class Kind : uint8_t { kDone, kOutOfTime, kOutOfMemory, kFailed };
  Kind kind = Kind::kFailed;
  int64_t peak_bytes = 0;  // the most memory that it had
};

// Runs `work` in a process of its own, so that a measurement that takes too long or too much memory
// ends alone, and its memory is counted apart. What `work` hands to its argument, a line without
// its end, reaches `line` in this process as it comes, also of work that does not end well. This
// process has a single thread.
ProcessEnd RunLimited(const ProcessLimits& limits,
                      const std::function<void(const std::function<void(std::string)>&)>& work,
                      const std::function<void(const std::string&)>& line);

}  // namespace partita
