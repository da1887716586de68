#include "runtime/backend/cpu/thread_team.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace partita {
namespace {

void PinTo(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  // Those that this process was left with (taskset). A core that it may not use is no error: the
  // thread then stays where it may run.
  cpu_set_t allowed;
  if (sched_getaffinity(getpid(), sizeof(allowed), &allowed) == 0) CPU_AND(&set, &set, &allowed);
  if (CPU_COUNT(&set) > 0) pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

void FlushDenormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
#endif
}

}  // namespace

void SetUpThreadTeam(int threads, const std::vector<int>& cores) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
#pragma omp parallel num_threads(threads)
  {
    const auto thread = static_cast<size_t>(omp_get_thread_num());
    if (!cores.empty()) PinTo({cores[thread % cores.size()]});
    FlushDenormals();
  }
}

TeamSize::TeamSize(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
TeamSize::~TeamSize() { omp_set_num_threads(before_); }

int CurrentTeamSize() { return omp_get_max_threads(); }

}  // namespace partita
