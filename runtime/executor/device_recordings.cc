#include "runtime/executor/device_recordings.h"

#include "graph/support/check.h"
#include "graph/support/exceptions.h"

namespace partita {

// Either all have begun or none.
absl::Status DeviceRecordings::Begin() {
  for (size_t d = 0; d < devices_.size(); ++d) {
    const absl::Status status = devices_[d]->Begin();
    if (status.ok()) continue;
    while (d-- > 0) (void)devices_[d]->End();
    return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceRecordings::End() {
  absl::Status status;
  for (const auto& device : devices_) status.Update(device->End());
  return status;
}

absl::Status DeviceRecordings::Run(const StepArguments& arguments) {
  std::vector<absl::Status> statuses(devices_.size());
  const auto run = [&](size_t d) {
    statuses[d] = Catching([&] { return devices_[d]->Run(arguments); });
  };
  if (threads_ != nullptr) {
    threads_->Run(run);
  } else {
    CHECK(devices_.size() == 1u) << "devices that run by one thread";
    run(0);
  }
  absl::Status status;
  for (const absl::Status& one : statuses) status.Update(one);
  return status;
}

}  // namespace partita
