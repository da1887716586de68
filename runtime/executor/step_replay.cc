#include "runtime/executor/step_replay.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

template <class... Text>
absl::Status No(const Text&... why) {
  return absl::UnimplementedError(absl::StrCat(why...));
}

}  // namespace

absl::Status CanReplay(const ReplayQuestion& question) {
  const Backend* backend = nullptr;
  const bool apart = question.communicator.EnqueueMeetsPeers();
  for (size_t d = 0; d < question.devices.size(); ++d) {
    const BackendDevice* const device = question.devices[d].get();
    if (device == nullptr) continue;
    const Backend& own = *question.placed[d].backend;
    if (own.NewRecording({}) == nullptr) return No("the ", own.name(), " backend records nothing");
    if (backend != nullptr && backend != &own) return No("the devices are of several backends");
    backend = &own;
    for (const auto& other : question.devices) {
      if (other != nullptr && !apart && !device->Reaches(*other)) {
        return No("the devices do not reach each other's memory");
      }
    }
  }
  const auto& tasks = question.tasks.tasks();
  if (std::any_of(tasks.begin(), tasks.end(), IsCommunication) &&
      !question.communicator.EnqueuesTheSame()) {
    return No("the devices communicate through the host, or a library that cannot be recorded");
  }
  return absl::OkStatus();
}

StepReplay::Recorded* StepReplay::Find(std::span<const BatchAddress> batch) {
  const auto found = std::find_if(recorded_.begin(), recorded_.end(), [&](const Recorded& one) {
    return std::equal(one.batch.begin(), one.batch.end(), batch.begin(), batch.end());
  });
  return found == recorded_.end() ? nullptr : &*found;
}

void StepReplay::Remember(std::span<const BatchAddress> batch) {
  if (recorded_.size() < kMostAddresses) {
    recorded_.push_back({{batch.begin(), batch.end()}, nullptr});
  } else {
    status_.Update(No("batches come from more than ", kMostAddresses, " addresses"));
  }
}

bool StepReplay::Record(Recorded& recorded, const std::function<void()>& enqueue) {
  if (!status_.ok()) return false;
  auto recording = make_();
  const absl::Status begun = recording->Begin();
  status_ = agree_(begun);
  if (!status_.ok()) {
    if (begun.ok()) (void)recording->End();
    return false;
  }
  enqueue();
  status_ = agree_(recording->End());
  if (!status_.ok()) return false;
  recorded.recording = std::move(recording);
  return true;
}

absl::Status StepReplay::Enqueue(std::span<const BatchAddress> batch,
                                 const StepArguments& arguments,
                                 const std::function<void()>& enqueue) {
  Recorded* const recorded = Find(batch);
  if (recorded == nullptr) {
    Remember(batch);
    enqueue();
    return absl::OkStatus();
  }
  if (recorded->recording == nullptr && !Record(*recorded, enqueue)) {
    enqueue();
    return absl::OkStatus();
  }
  ++runs_;
  return recorded->recording->Run(arguments);
}

}  // namespace partita
