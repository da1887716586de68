#include "tools/workflow/profiling_session.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "graph/collective/algorithms.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "runtime/train/executor_setup.h"

namespace partita {
namespace {

constexpr int64_t kTypicalElements[] = {1, 1 << 10, 1 << 14, 1 << 18, 1 << 22};
constexpr int64_t kStepTasks[] = {1, 256};

TaskBody CollectiveOf(Collective collective, const std::vector<DeviceId>& group) {
  CollectiveTask task;
  task.group = group;
  task.algorithm = std::string(
      DefaultAlgorithm(collective.kind, collective.ranks, collective.total * SizeOf(task.dtype)));
  task.collective = std::move(collective);
  return task;
}

TaskBody TransfersOf(const std::vector<std::pair<int, int>>& pairs, int64_t elements) {
  TransferTask task;
  for (const auto& [from, to] : pairs) {
    const Slice slice{kNoBuffer, 0, elements};
    task.transfers.push_back({DeviceId(from), DeviceId(to), slice, slice});
    for (int d : {from, to}) task.group.push_back(DeviceId(d));
  }
  std::sort(task.group.begin(), task.group.end());
  task.group.erase(std::unique(task.group.begin(), task.group.end()), task.group.end());
  return task;
}

}  // namespace

ProfileRecord RecordOfWork(const ProfiledWork& work) {
  if (const auto* move = std::get_if<MoveSignature>(&work)) return RecordOf(*move);
  return RecordOf(std::get<KernelWork>(work).signature);
}

ProfileRecord RecordOfCommunication(const TaskBody& body) {
  if (const auto* collective = std::get_if<CollectiveTask>(&body)) {
    return RecordOf(CallOf(*collective));
  }
  return RecordOf(CallsOf(std::get<TransferTask>(body)));
}

CollectiveCall CallOf(const CollectiveTask& task) {
  return {&task.collective, task.algorithm, task.group, task.dtype};
}

std::vector<TransferCall> CallsOf(const TransferTask& task) {
  std::vector<TransferCall> calls;
  for (const Transfer& t : task.transfers) {
    calls.push_back({t.from, t.to, t.receive.count * SizeOf(task.dtype)});
  }
  return calls;
}

std::vector<TaskBody> TypicalCommunication(int devices) {
  std::vector<TaskBody> tasks;
  for (int ranks = 2; ranks <= devices; ranks = ranks < devices ? devices : devices + 1) {
    std::vector<DeviceId> group;
    std::vector<std::pair<int, int>> ring, broadcast;
    for (int r = 0; r < ranks; ++r) {
      group.push_back(DeviceId(r));
      ring.push_back({r, (r + 1) % ranks});
      if (r > 0) broadcast.push_back({0, r});
    }
    for (int64_t elements : kTypicalElements) {
      std::vector<int64_t> blocks(static_cast<size_t>(ranks), elements);
      tasks.push_back(CollectiveOf(MakeAllReduce(ranks, elements), group));
      tasks.push_back(CollectiveOf(MakeReduceScatter(blocks), group));
      tasks.push_back(CollectiveOf(MakeAllGather(blocks), group));
      tasks.push_back(TransfersOf(ring, elements));
      tasks.push_back(TransfersOf(broadcast, elements));
    }
  }
  return tasks;
}

ProfilingSession::ProfilingSession(ProfileDb& db, DeviceFingerprint device, const Machine& machine,
                                   const ProfilingRequest& request)
    : db_(db), device_(std::move(device)), machine_(machine), request_(request) {
  result_.complete = true;
}

absl::Status ProfilingSession::Open() {
  ASSIGN_OR_RETURN(known_, db_.Signatures(device_));
  return absl::OkStatus();
}

bool ProfilingSession::OutOfTime(double part) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  return seconds > part * request_.seconds ||
         (request_.stop != nullptr && request_.stop->load(std::memory_order_relaxed));
}

absl::Status ProfilingSession::Write(ProfileRecord record, Measurement measurement) {
  record.scratch_bytes = measurement.scratch_bytes;
  record.measured_at = static_cast<int64_t>(std::time(nullptr));
  record.program = "partita";
  known_.insert(record.signature);
  if (!measurement.alone_ns.empty()) {
    record.samples_ns = std::move(measurement.alone_ns);
    RETURN_IF_ERROR(db_.Insert(AloneFingerprint(device_), std::span(&record, 1)));
  }
  record.samples_ns = std::move(measurement.samples_ns);
  return db_.Insert(device_, std::span(&record, 1));
}

absl::Status ProfilingSession::MeasureSteps(LinkProfiler& links) {
  for (int64_t tasks : kStepTasks) {
    ProfileRecord record = RecordOfStep(tasks);
    if (Known(record.signature) || OutOfTime()) continue;
    ASSIGN_OR_RETURN(Measurement measurement,
                     links.MeasureStep(static_cast<int>(tasks), {.samples = 25}));
    RETURN_IF_ERROR(Write(std::move(record), std::move(measurement)));
  }
  return absl::OkStatus();
}

absl::Status ProfilingSession::MeasureOne(LinkProfiler& links, const TaskBody& body) {
  ProfileRecord record = RecordOfCommunication(body);
  if (Known(record.signature)) {
    ++result_.known;
    return absl::OkStatus();
  }
  if (OutOfTime(0.5)) {
    result_.complete = false;
    return absl::OkStatus();
  }
  if (request_.progress) {
    request_.progress(result_.known + result_.measured, result_.wanted, record.signature);
  }
  ASSIGN_OR_RETURN(Measurement measurement, links.Measure(body, {.samples = request_.samples}));
  ++result_.measured;
  return Write(std::move(record), std::move(measurement));
}

absl::Status ProfilingSession::MeasureCommunication(std::span<const TaskBody> wanted) {
  const DeviceTopology& topology = machine_.topology;
  const std::vector<TaskBody> typical = TypicalCommunication(topology.size());
  result_.wanted += static_cast<int64_t>(typical.size() + wanted.size());
  ASSIGN_OR_RETURN(const auto backend, MakeBackend(LocalBackendName()));
  ASSIGN_OR_RETURN(auto communicator, MakeCommunicator("inproc", topology.size()));
  ASSIGN_OR_RETURN(const auto links,
                   LinkProfiler::Open(*backend, DeviceSpecsOf(topology), std::move(communicator)));
  RETURN_IF_ERROR(MeasureSteps(*links));
  for (const TaskBody& body : typical) RETURN_IF_ERROR(MeasureOne(*links, body));
  for (const TaskBody& body : wanted) RETURN_IF_ERROR(MeasureOne(*links, body));
  return absl::OkStatus();
}

absl::Status ProfilingSession::MeasureBatch(KernelProfiler& profiler,
                                            std::span<const ProfiledWork> batch,
                                            const ProfilerOptions& options) {
  ASSIGN_OR_RETURN(std::vector<Measurement> measurements, profiler.Measure(batch, options));
  for (size_t k = 0; k < batch.size(); ++k) {
    ++result_.measured;
    RETURN_IF_ERROR(Write(RecordOfWork(batch[k]), std::move(measurements[k])));
  }
  return absl::OkStatus();
}

// Works go in batches whose operands together are about as large as a step's, at most half of what
// a device may have.
absl::Status ProfilingSession::MeasureKernels(const WantedSignatures& wanted) {
  const DeviceTopology& topology = machine_.topology;
  ASSIGN_OR_RETURN(const auto backend, MakeBackend(LocalBackendName()));
  ASSIGN_OR_RETURN(const auto profiler, KernelProfiler::Open(*backend, DeviceSpecsOf(topology)));
  std::vector<ProfiledWork> works(wanted.kernels.begin(), wanted.kernels.end());
  works.insert(works.end(), wanted.moves.begin(), wanted.moves.end());
  result_.wanted += static_cast<int64_t>(works.size());
  const int64_t most = std::min(wanted.footprint, topology.device(DeviceId(0)).memory.value() / 4);
  ProfilerOptions options;
  options.footprint = wanted.footprint;
  options.samples = request_.samples;
  std::vector<ProfiledWork> batch;
  int64_t bytes = 0;
  for (size_t k = 0; k <= works.size(); ++k) {
    const bool last = k == works.size();
    if (!last && Known(RecordOfWork(works[k]).signature)) {
      ++result_.known;
      continue;
    }
    const int64_t more = last ? 0 : OperandBytes(works[k]);
    if (!batch.empty() && (last || bytes + more > most)) {
      if (OutOfTime()) {
        result_.complete = false;
        return absl::OkStatus();
      }
      if (request_.progress) {
        request_.progress(result_.known + result_.measured, result_.wanted,
                          RecordOfWork(batch[0]).signature);
      }
      RETURN_IF_ERROR(MeasureBatch(*profiler, batch, options));
      batch.clear();
      bytes = 0;
    }
    if (last) break;
    batch.push_back(works[k]);
    bytes += more;
  }
  return absl::OkStatus();
}

}  // namespace partita
