#include "runtime/backend/algorithm_store.h"

#include <algorithm>
#include <tuple>

namespace partita {

AlgorithmStore::AlgorithmStore(const std::vector<Entry>& known) {
  for (const Entry& entry : known) choices_[{entry.device, entry.work}] = {entry.choice, false};
}

std::optional<std::string> AlgorithmStore::Find(const std::string& device,
                                                const std::string& work) const {
  std::lock_guard lock(mutex_);
  const auto found = choices_.find(std::pair(device, work));
  if (found == choices_.end()) return std::nullopt;
  return found->second.text;
}

std::string AlgorithmStore::Add(const Entry& entry) {
  std::lock_guard lock(mutex_);
  return choices_.try_emplace({entry.device, entry.work}, Choice{entry.choice}).first->second.text;
}

void AlgorithmStore::Replace(const Entry& entry) {
  std::lock_guard lock(mutex_);
  choices_[{entry.device, entry.work}] = {entry.choice};
}

std::vector<AlgorithmStore::Entry> AlgorithmStore::Added() const {
  std::vector<Entry> added;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, choice] : choices_) {
      if (choice.added) added.push_back({key.first, key.second, choice.text});
    }
  }
  std::sort(added.begin(), added.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.device, a.work) < std::tie(b.device, b.work);
  });
  return added;
}

}  // namespace partita
