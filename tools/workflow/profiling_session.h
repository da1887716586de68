#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "cost_model/machine.h"
#include "cost_model/profile_db.h"
#include "runtime/profiler/kernel_profiler.h"
#include "runtime/profiler/link_profiler.h"
#include "tools/workflow/profiling.h"

namespace partita {

// One stretch of measuring on this host into a database: what is known is left out, what is
// measured is written as it comes, time and the request's stop flag are looked at in between.
class ProfilingSession {
 public:
  // `db`, `machine` and `request` outlive it. `device`: of every device of the machine.
  ProfilingSession(ProfileDb& db, DeviceFingerprint device, const Machine& machine,
                   const ProfilingRequest& request);

  // Reads what is known.
  absl::Status Open();
  // What a step costs as such, collectives and transfers of the machine at a few sizes, and these
  // tasks; for half of the time at most.
  absl::Status MeasureCommunication(std::span<const TaskBody> wanted);
  absl::Status MeasureKernels(const WantedSignatures& wanted);

  const ProfilingResult& result() const { return result_; }

 private:
  bool Known(const std::string& key) const { return known_.contains(key); }
  bool OutOfTime(double part = 1);
  absl::Status Write(ProfileRecord record, Measurement measurement);
  absl::Status MeasureOne(LinkProfiler& links, const TaskBody& body);
  absl::Status MeasureSteps(LinkProfiler& links);
  absl::Status MeasureBatch(KernelProfiler& profiler, std::span<const ProfiledWork> batch,
                            const ProfilerOptions& options);

  ProfileDb& db_;
  const DeviceFingerprint device_;
  const Machine& machine_;
  const ProfilingRequest& request_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  absl::flat_hash_set<std::string> known_;
  ProfilingResult result_;
};

// Collectives and transfers at several sizes in groups of the machine's first devices: what prices
// those that were not measured themselves.
std::vector<TaskBody> TypicalCommunication(int devices);

// Records without samples.
ProfileRecord RecordOfWork(const ProfiledWork& work);
ProfileRecord RecordOfCommunication(const TaskBody& body);

// As the cost model is asked for them.
CollectiveCall CallOf(const CollectiveTask& task);
std::vector<TransferCall> CallsOf(const TransferTask& task);

}  // namespace partita
