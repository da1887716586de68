#include "runtime/launch/parent_watch.h"

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace partita {

// PR_SET_PDEATHSIG would not do: it is sent when the thread that has started this process ends, and
// launchers have threads for that which do not last.
void EndWithParent(int code) {
  std::thread([code, parent = getppid()] {
    while (getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    _exit(code);
  }).detach();
}

}  // namespace partita
