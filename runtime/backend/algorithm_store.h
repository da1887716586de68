#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace partita {

// Which algorithm does a piece of work best on a kind of device, as measured, in words of the
// backend that measured. Devices that share a store choose alike, so that their results are equal
// bit for bit; whoever opens devices may keep it in a file. Any thread.
class AlgorithmStore {
 public:
  struct Entry {
    std::string device;  // hardware, driver and library, with versions
    std::string work;
    std::string choice;
  };

  AlgorithmStore() = default;
  explicit AlgorithmStore(const std::vector<Entry>& known);

  std::optional<std::string> Find(const std::string& device, const std::string& work) const;
  // What is kept: the entry's choice, or that of another device that was first.
  std::string Add(const Entry& entry);
  // As Add, in the place of what is kept.
  void Replace(const Entry& entry);
  // What is not among the entries that it was made of, in order of device and work.
  std::vector<Entry> Added() const;

 private:
  struct Choice {
    std::string text;
    bool added = true;
  };
  mutable std::mutex mutex_;
  absl::flat_hash_map<std::pair<std::string, std::string>, Choice> choices_;
};

}  // namespace partita
