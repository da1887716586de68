#include "runtime/train/data/sample_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

struct Sample {
  std::vector<float> x;
  int32_t label = 0;
};

class CachedSource : public DataSource {
 public:
  CachedSource(std::unique_ptr<DataSource> source, int64_t max_bytes)
      : source_(std::move(source)), cache_(source_->size(), max_bytes) {}

  int64_t size() const override { return source_->size(); }
  const SampleShape& shape() const override { return source_->shape(); }
  int classes() const override { return source_->classes(); }
  int labelled_classes() const override { return source_->labelled_classes(); }
  std::string Describe() const override {
    return absl::StrCat(source_->Describe(), ", kept in memory");
  }

  absl::Status Read(int64_t index, int64_t epoch, std::span<float> x,
                    int32_t* label) const override {
    if (const auto kept = cache_.Get(index)) {
      std::ranges::copy(kept->x, x.begin());
      *label = kept->label;
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(source_->Read(index, epoch, x, label));
    cache_.Put(index, std::make_shared<Sample>(Sample{{x.begin(), x.end()}, *label}),
               static_cast<int64_t>(x.size_bytes() + sizeof(Sample)));
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<DataSource> source_;
  mutable SampleCache<Sample> cache_;
};

}  // namespace

std::unique_ptr<DataSource> CacheSamples(std::unique_ptr<DataSource> source, int64_t max_bytes) {
  return std::make_unique<CachedSource>(std::move(source), max_bytes);
}

}  // namespace partita
