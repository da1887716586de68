#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace partita {

// Store of the fastest measured algorithm for each work and kind of device, as text of the backend
// that measured. Devices that share a store choose alike, so that their results are equal bit for
// bit; the code that opens devices may keep it in a file. Any thread.
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
  // Adds an entry; returns the choice that is kept: the entry's, or that of another device that was
  // first.
  std::string Add(const Entry& entry);
  // Adds an entry in the place of the one that is kept.
  void Replace(const Entry& entry);
  // Entries added since it was made, in order of device and work.
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
