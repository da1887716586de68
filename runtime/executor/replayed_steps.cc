#include "runtime/executor/replayed_steps.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/executor/device_recordings.h"

namespace partita {

ReplayedSteps::ReplayedSteps(const Setup& setup, bool is_asked_for)
    : setup_(setup),
      together_(setup.port != nullptr && setup.communicator.EnqueueMeetsPeers()),
      can_(is_asked_for ? CanReplay({.tasks = setup.tasks,
                                     .placed = setup.placed,
                                     .devices = setup.devices,
                                     .communicator = setup.communicator})
                        : absl::UnimplementedError("it was not asked for")) {
  if (together_) can_ = Agreed(can_);
  if (!can_.ok()) return;
  replay_ = std::make_unique<StepReplay>(
      [this] { return NewRecording(); },
      [this](const absl::Status& own) { return together_ ? Agreed(own) : own; });
}

absl::Status ReplayedSteps::Agreed(const absl::Status& own) const {
  const std::string text = own.ok() ? "" : absl::StrCat(": ", own.message());
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, GatherTexts(*setup_.port, text));
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) {
      return absl::UnimplementedError(absl::StrCat("rank ", rank, texts[rank]));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ReplayedSteps::Compare(bool piecewise) {
  struct Word {
    BatchAddress batch;
    int64_t piecewise = 0;
  };
  CHECK(batches_.size() == 1u) << "a process with several devices";
  const Word own{batches_[0], piecewise ? 1 : 0};
  const std::string bytes(reinterpret_cast<const char*>(&own), sizeof own);
  ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherBytes(*setup_.port, bytes));
  batches_.clear();
  bool any = false;
  for (const std::string& one : all) {
    Word word;
    std::memcpy(&word, one.data(), sizeof word);
    batches_.push_back(word.batch);
    any |= word.piecewise != 0;
  }
  return any;
}

std::unique_ptr<StreamRecording> ReplayedSteps::NewRecording() const {
  const bool apart = setup_.communicator.EnqueueMeetsPeers();
  const Backend* backend = nullptr;
  std::vector<Stream*> streams;
  std::vector<std::unique_ptr<StreamRecording>> recordings;
  for (size_t d = 0; d < setup_.lanes.size(); ++d) {
    if (setup_.lanes[d] == nullptr) continue;
    backend = setup_.placed[d].backend.get();
    streams.push_back(&setup_.lanes[d]->compute());
    streams.push_back(&setup_.lanes[d]->communication());
    if (!apart) continue;
    recordings.push_back(backend->NewRecording(streams));
    streams.clear();
  }
  if (!apart) return backend->NewRecording(streams);
  setup_.communicator.KeepForRecordings();
  return std::make_unique<DeviceRecordings>(std::move(recordings), setup_.threads);
}

absl::Status ReplayedSteps::Enqueue(const StepFeed& feed, bool piecewise,
                                    const std::function<void()>& enqueue) {
  if (replay_ == nullptr) {
    enqueue();
    return absl::OkStatus();
  }
  batches_.clear();
  for (const auto& lanes : setup_.lanes) {
    if (lanes != nullptr) batches_.push_back(lanes->BatchOf(feed));
  }
  if (together_) {
    ASSIGN_OR_RETURN(piecewise, Compare(piecewise));
  }
  if (!piecewise) return replay_->Enqueue(batches_, feed.arguments, enqueue);
  enqueue();
  return absl::OkStatus();
}

}  // namespace partita
