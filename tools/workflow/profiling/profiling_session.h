#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cost_model/machine.h"
#include "cost_model/profile_db.h"
#include "runtime/profiler/kernel_profiler.h"
#include "runtime/profiler/link_profiler.h"
#include "tools/workflow/profiling/profiling.h"

namespace partita {

// One stretch of measuring the devices of one class of this host into a database, as
// ProfileSignatures describes it. For one call of Measure.
class ProfilingSession {
 public:
  // `db`, `priced` and `request` outlive it. `devices`: all of the class. Communication is measured
  // between those of the first one's node, kernels on those that can work at once.
  ProfilingSession(ProfileDb& db, const PricedMachine& priced, std::vector<DeviceId> devices,
                   const ProfilingRequest& request);

  // Measures in passes; communication takes at most half of the time left in each.
  absl::StatusOr<ProfilingResult> Measure(const WantedSignatures& wanted);

 private:
  using LinkFunction =
      std::function<absl::StatusOr<Measurement>(LinkProfiler&, const ProfilerOptions&)>;
  struct LinkWork {
    ProfileRecord record;  // record without samples
    LinkFunction measure;
    int passes = 0;  // passes made
  };
  struct KernelBatch {
    std::vector<ProfiledWork> works;
    int64_t bytes = 0;  // bytes of their operands
    int passes = 0;
  };
  // Tasks whose samples are far apart or few, contended or uncontended.
  struct Doubtful {
    absl::flat_hash_set<std::string> all;
    absl::flat_hash_set<std::string> open;  // keys of those not yet measured again the required
                                            // number of times
  };

  // Lists the work to be measured. Kernels and moves go in batches whose operands together are
  // about as large as a step's, at most half of what a device may have.
  void ListLinks(std::span<const TaskBody> wanted);
  void ListKernels(const WantedSignatures& wanted);
  // Devices, to be opened.
  absl::StatusOr<std::vector<PlacedDevice>> Places(std::span<const DeviceId> devices) const;
  // A task of devices_ with their places in it as numbers; nullopt where others take part.
  std::optional<TaskBody> Within(const TaskBody& body) const;
  void AddToBatch(const ProfiledWork& work);
  absl::StatusOr<Doubtful> FindDoubtful() const;
  // Entries of the list that are to be measured again.
  absl::Status KeepDoubtful();
  // Counts a task as wanted; false where there is nothing to do for it.
  bool Lists(const std::string& signature, bool again);

  absl::Status MeasureInPasses(int64_t footprint);
  absl::Status MeasureLinks(const ProfilerOptions& options);
  absl::Status MeasureKernels(const ProfilerOptions& options);
  absl::Status Write(std::vector<ProfileRecord> records, std::vector<Measurement> measurements);

  absl::StatusOr<std::unique_ptr<LinkProfiler>> OpenLinks() const;
  absl::StatusOr<std::unique_ptr<KernelProfiler>> OpenKernels(
      std::span<const PlacedDevice> devices) const;

  // Seconds since it was made.
  double Elapsed() const;
  // True after so many seconds, or when asked to stop.
  bool IsOver(double seconds) const;
  void ReportProgress(const std::string& what) const;
  // Counts one more pass of so many tasks; `passes` of each before.
  void CountPass(size_t tasks, int& passes);

  ProfileDb& db_;
  const PricedMachine& priced_;
  const std::vector<DeviceId> devices_;  // devices of the class and of one node
  const std::vector<DeviceId> at_once_;  // devices of the class that share no core
  const DeviceFingerprint fingerprint_;
  const Precision precision_;  // compute type of the class
  // Kernels that are not deterministic are wanted of GPUs, and of what cores do in one strategy and GPUs
  // in another, too.
  const bool is_gpu_, adds_nondeterministic_;
  const ProfilingRequest& request_;
  const int passes_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  absl::flat_hash_set<std::string> known_, listed_;
  Doubtful doubtful_;     // tasks in doubt as measuring begins
  bool repeats_ = false;  // all that is measured is measured again
  bool is_last_pass_ = false;
  int64_t most_bytes_ = 0;  // most bytes of a batch
  std::vector<LinkWork> links_;
  std::vector<KernelBatch> batches_;
  int64_t task_passes_ = 0;  // passes made, over all tasks
  ProfilingResult result_;
};

// Collectives and transfers at several sizes in groups of the machine's first devices: what prices
// those that were not measured themselves.
std::vector<TaskBody> TypicalCommunication(int devices);

// Records without samples.
ProfileRecord RecordOfWork(const ProfiledWork& work);
ProfileRecord RecordOfCommunication(const TaskBody& body);

// Call of a collective task, as the cost model prices it.
CollectiveCall CallOf(const CollectiveTask& task);
std::vector<TransferCall> CallsOf(const TransferTask& task);

}  // namespace partita
