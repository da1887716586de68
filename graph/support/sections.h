#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

// Ranges of a list, one for each of several owners, that stay where they are as long as they do not
// outgrow their room. Given room one after another, they follow each other without gaps.
class Sections {
 public:
  struct Section {
    int32_t begin = 0, size = 0;
    int32_t end() const { return begin + size; }
  };

  explicit Sections(size_t owners = 0) : sections_(owners), room_(owners, 0) {}

  const Section& operator[](size_t owner) const { return sections_[owner]; }
  // Gives the owner a section of this size: its old one if there is room, otherwise one at the end.
  const Section& Resize(size_t owner, int32_t size) {
    Section& section = sections_[owner];
    used_ += size - section.size;
    section.size = size;
    if (size > room_[owner]) {
      section.begin = end_;
      room_[owner] = size;
      end_ += size;
    }
    return section;
  }
  // All sections lie below.
  int32_t end() const { return end_; }
  // Whether most of the list is gaps, so that it is worth while to begin again.
  bool is_sparse() const { return end_ > 2 * used_ + kFew; }
  // Takes all sections back.
  void Clear() { *this = Sections(sections_.size()); }

 private:
  static constexpr int32_t kFew = 4096;

  std::vector<Section> sections_;
  std::vector<int32_t> room_;  // indexed by owner
  int32_t used_ = 0, end_ = 0;
};

}  // namespace partita
