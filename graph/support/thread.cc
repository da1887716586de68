#include "graph/support/thread.h"

#include <latch>
#include <vector>

#include "graph/support/doing.h"
#include "graph/support/exceptions.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::StatusOr<Thread> Thread::Start(std::string doing, std::function<void()> run,
                                     std::function<void(const absl::Status&)> on_error) {
  return Catching([&]() -> absl::StatusOr<Thread> {
    const Doing starting("starting a thread for", doing);
    return Thread(std::thread(
        [doing = std::move(doing), run = std::move(run), on_error = std::move(on_error)] {
          const Doing own(doing);
          const absl::Status status = Catching(run);
          if (!status.ok()) on_error(status);
        }));
  });
}

absl::Status CheckThreads(int count, const std::string& doing) {
  std::latch all(count);
  const auto release = [&all](int remaining) { all.count_down(remaining); };
  std::vector<Thread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int k = 0; k < count; ++k) {
    absl::StatusOr<Thread> thread =
        Thread::Start(doing, [&all] { all.arrive_and_wait(); }, [](const absl::Status&) {});
    if (!thread.ok()) {
      release(count - k);
      return thread.status();
    }
    threads.push_back(*std::move(thread));
  }
  return absl::OkStatus();
}

}  // namespace partita
