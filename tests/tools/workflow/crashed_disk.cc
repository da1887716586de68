#include "tests/tools/workflow/crashed_disk.h"

#include <algorithm>
#include <optional>

#include "graph/support/check.h"

namespace partita {
namespace {

constexpr size_t kSector = 512;
constexpr size_t kMostNames =
    8;  // changes of names of which all sets are taken; of more, as many sets

void Apply(const FileOperation& operation, std::string& content) {
  const auto offset = static_cast<size_t>(operation.offset);
  if (operation.kind == FileOperation::kTruncate) {
    content.resize(offset);
    return;
  }
  content.resize(std::max(content.size(), offset + operation.bytes.size()));
  content.replace(offset, operation.bytes.size(), operation.bytes);
}

void Apply(const FileOperation& operation, std::map<std::string, int>& names) {
  switch (operation.kind) {
    case FileOperation::kCreate:
      names[operation.name] = operation.file;
      break;
    case FileOperation::kRename:
      // A change of names that was lost may have been its source.
      if (names.erase(operation.name) > 0) names[operation.to] = operation.file;
      break;
    case FileOperation::kUnlink:
      names.erase(operation.name);
      break;
    default:
      CHECK(false) << "no change of names";
  }
}

// What becomes of writes.
struct Fate {
  size_t prefix = SIZE_MAX;           // so many are done
  std::optional<size_t> lost;         // but for this one
  std::optional<uint64_t> torn_seed;  // instead: of every write, some sectors
};

// Of the writes, some sectors; the others hold what was there, or nothing.
std::string Torn(std::string content, const std::vector<const FileOperation*>& writes,
                 uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool garbage = random() % 2 == 0, full_length = random() % 2 == 0;
  const auto percent = random() % 101;
  const std::string before = content;
  std::string whole = content;
  for (const FileOperation* write : writes) Apply(*write, whole);
  if (full_length) {
    content.resize(whole.size());
    for (size_t k = before.size(); garbage && k < content.size(); ++k) {
      content[k] = static_cast<char>(random());
    }
  }
  for (const FileOperation* write : writes) {
    if (write->kind == FileOperation::kTruncate) {
      if (random() % 100 < percent) Apply(*write, content);
      continue;
    }
    for (size_t at = 0; at < write->bytes.size();) {
      const size_t from = static_cast<size_t>(write->offset) + at;
      const size_t length = std::min(kSector - from % kSector, write->bytes.size() - at);
      if (random() % 100 < percent) {
        FileOperation sector = *write;
        sector.offset = static_cast<int64_t>(from);
        sector.bytes = write->bytes.substr(at, length);
        Apply(sector, content);
      }
      at += length;
    }
  }
  return content;
}

std::string After(const std::string& lasting, const std::vector<const FileOperation*>& writes,
                  const Fate& fate) {
  if (fate.torn_seed.has_value()) return Torn(lasting, writes, *fate.torn_seed);
  std::string content = lasting;
  for (size_t k = 0; k < std::min(fate.prefix, writes.size()); ++k) {
    if (fate.lost != k) Apply(*writes[k], content);
  }
  return content;
}

std::vector<Fate> Fates(size_t writes, int samples, std::mt19937_64& random) {
  if (writes == 0) return {Fate{}};
  std::vector<Fate> fates;
  for (size_t k = 0; k <= writes; ++k) fates.push_back({.prefix = k});
  for (size_t k = 0; k + 1 < writes; ++k) fates.push_back({.lost = k});
  for (int k = 0; k < samples; ++k) fates.push_back({.torn_seed = random()});
  return fates;
}

}  // namespace

// What lasts, and what may be lost.
struct CrashedDisk::Pending {
  std::map<std::string, int> names;
  std::vector<const FileOperation*> changes;  // of names
  std::map<int, std::string> contents;
  std::map<int, std::vector<const FileOperation*>> writes;
};

CrashedDisk::Pending CrashedDisk::At(size_t done) const {
  Pending at;
  int number = 0;
  for (const auto& [name, content] : before_) {
    at.names[name] = number;
    at.contents[number++] = content;
  }
  for (size_t k = 0; k < done; ++k) {
    const FileOperation& operation = operations_[k];
    switch (operation.kind) {
      case FileOperation::kWrite:
      case FileOperation::kTruncate:
        at.writes[operation.file].push_back(&operation);
        break;
      case FileOperation::kSync:
        for (const FileOperation* write : at.writes[operation.file]) {
          Apply(*write, at.contents[operation.file]);
        }
        at.writes.erase(operation.file);
        break;
      case FileOperation::kSyncFolder:
        for (const FileOperation* change : at.changes) Apply(*change, at.names);
        at.changes.clear();
        break;
      default:
        at.changes.push_back(&operation);
    }
  }
  return at;
}

void CrashedDisk::Visit(size_t done, int samples, std::mt19937_64& random,
                        const std::function<void(const Disk&)>& visit) const {
  const Pending at = At(done);
  CHECK_LT(at.changes.size(), 64u);
  const bool all_sets = at.changes.size() <= kMostNames;
  size_t most = 0;
  for (const auto& [file, writes] : at.writes) most = std::max(most, writes.size());
  const std::vector<Fate> fates = Fates(most, samples, random);
  for (uint64_t k = 0; k < uint64_t{1} << std::min(at.changes.size(), kMostNames); ++k) {
    const uint64_t set = all_sets ? k : random();
    std::map<std::string, int> names = at.names;
    for (size_t c = 0; c < at.changes.size(); ++c) {
      if ((set >> c & 1) != 0) Apply(*at.changes[c], names);
    }
    for (const Fate& fate : fates) {
      Disk disk;
      for (const auto& [name, file] : names) {
        const auto lasting = at.contents.find(file);
        std::string content = lasting == at.contents.end() ? "" : lasting->second;
        const auto writes = at.writes.find(file);
        if (writes != at.writes.end()) content = After(content, writes->second, fate);
        disk[name] = std::move(content);
      }
      visit(disk);
    }
  }
}

Disk CrashedDisk::Whole() const {
  Pending at = At(operations_.size());
  for (const FileOperation* change : at.changes) Apply(*change, at.names);
  Disk disk;
  for (const auto& [name, file] : at.names) {
    disk[name] = After(at.contents[file], at.writes[file], {});
  }
  return disk;
}

}  // namespace partita
