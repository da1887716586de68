#include "tools/workflow/profiling/profiling_session.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "graph/collective/algorithms.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "runtime/comm/communicators.h"
#include "runtime/executor/executor_setup.h"
#include "tools/workflow/profiling/kept_algorithms.h"

namespace partita {
namespace {

constexpr int64_t kTypicalElements[] = {1, 1 << 10, 1 << 14, 1 << 18, 1 << 22};
constexpr int64_t kStepTasks[] = {1, 256};
constexpr int kStepRuns = 3;  // steps of empty tasks are short: so many for each sample of others

TaskBody CollectiveOf(Collective collective, const std::vector<DeviceId>& group) {
  CollectiveTask task;
  task.group = group;
  task.algorithm =
      DefaultAlgorithm(collective.kind, collective.ranks, collective.total * SizeOf(task.dtype));
  task.collective = std::move(collective);
  return task;
}

// Those in the node of the first one.
std::vector<DeviceId> OfOneNode(const DeviceTopology& topology, std::vector<DeviceId> devices) {
  const int node = topology.device(devices[0]).node;
  std::erase_if(devices, [&](DeviceId id) { return topology.device(id).node != node; });
  return devices;
}

// The first one, and those of its computer that share no core with it or each other.
std::vector<DeviceId> AtOnce(const DeviceTopology& topology, std::span<const DeviceId> devices) {
  std::vector<DeviceId> found;
  for (DeviceId id : devices) {
    const auto shares = [&](DeviceId other) { return topology.ShareCore(id, other); };
    if (!topology.ShareHost(id, devices[0])) continue;
    if (std::none_of(found.begin(), found.end(), shares)) found.push_back(id);
  }
  return found;
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

bool HasCores(const PricedMachine& priced) {
  const auto& devices = priced.machine->topology.devices();
  return std::any_of(devices.begin(), devices.end(),
                     [](const Device& device) { return device.kind == DeviceKind::kCpu; });
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

ProfilingSession::ProfilingSession(ProfileDb& db, const PricedMachine& priced,
                                   std::vector<DeviceId> devices, const ProfilingRequest& request)
    : db_(db),
      priced_(priced),
      devices_(OfOneNode(priced.machine->topology, devices)),
      at_once_(AtOnce(priced.machine->topology, devices)),
      fingerprint_(priced.FingerprintOf(devices_[0])),
      precision_(priced.PrecisionOf(devices_[0])),
      is_gpu_(priced.device(devices_[0]).kind == DeviceKind::kGpu),
      adds_nondeterministic_(is_gpu_ && priced.nondeterministic && HasCores(priced)),
      request_(request),
      passes_((request.samples + request.samples_per_pass - 1) / request.samples_per_pass) {}

absl::StatusOr<ProfilingResult> ProfilingSession::Measure(const WantedSignatures& wanted) {
  ASSIGN_OR_RETURN(known_, db_.Signatures(fingerprint_));
  ASSIGN_OR_RETURN(doubtful_, FindDoubtful());
  ListLinks(wanted.communication);
  ListKernels(wanted);
  RETURN_IF_ERROR(MeasureInPasses(wanted.footprint));
  repeats_ = true;
  for (int k = 0; k < request_.most_repeats && !IsOver(request_.seconds); ++k) {
    RETURN_IF_ERROR(KeepDoubtful());
    if (links_.empty() && batches_.empty()) break;
    RETURN_IF_ERROR(MeasureInPasses(wanted.footprint));
  }
  ASSIGN_OR_RETURN(const Doubtful doubtful, FindDoubtful());
  for (const std::string& signature : listed_) {
    result_.unsteady += doubtful.all.contains(signature) ? 1 : 0;
  }
  result_.complete = wanted.complete && result_.known + result_.measured == result_.wanted;
  return result_;
}

absl::Status ProfilingSession::MeasureInPasses(int64_t footprint) {
  for (int pass = 0; pass < passes_ && !IsOver(request_.seconds); ++pass) {
    is_last_pass_ = pass + 1 == passes_;
    ProfilerOptions options;
    options.footprint = footprint;
    options.samples =
        std::min(request_.samples_per_pass, request_.samples - pass * request_.samples_per_pass);
    // A pass's part of the time that slow tasks get.
    options.seconds /= passes_;
    options.least_samples = 1;
    RETURN_IF_ERROR(MeasureLinks(options));
    RETURN_IF_ERROR(MeasureKernels(options));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProfilingSession::Doubtful> ProfilingSession::FindDoubtful() const {
  Doubtful doubtful;
  for (const DeviceFingerprint& device : {fingerprint_, UncontendedFingerprint(fingerprint_)}) {
    ASSIGN_OR_RETURN(const std::vector<ProfileRecord> records, db_.Records(device));
    for (const ProfileRecord& record : records) {
      if (SteadinessOf(TimingOf(record.samples_ns)) == Steadiness::kSteady) continue;
      doubtful.all.insert(record.signature);
      if (record.repeats < request_.most_repeats) doubtful.open.insert(record.signature);
    }
  }
  return doubtful;
}

absl::Status ProfilingSession::KeepDoubtful() {
  ASSIGN_OR_RETURN(const Doubtful doubtful, FindDoubtful());
  std::erase_if(
      links_, [&](const LinkWork& work) { return !doubtful.open.contains(work.record.signature); });
  for (LinkWork& work : links_) work.passes = 0;
  for (const KernelBatch& batch : std::exchange(batches_, {})) {
    for (const ProfiledWork& work : batch.works) {
      if (doubtful.open.contains(RecordOfWork(work).signature)) AddToBatch(work);
    }
  }
  return absl::OkStatus();
}

bool ProfilingSession::Lists(const std::string& signature, bool again) {
  if (!listed_.insert(signature).second) return false;
  ++result_.wanted;
  if (again || !known_.contains(signature)) return true;
  const bool repeats = doubtful_.open.contains(signature);
  ++(repeats ? result_.repeated : result_.known);
  return repeats;
}

absl::StatusOr<std::vector<PlacedDevice>> ProfilingSession::Places(
    std::span<const DeviceId> devices) const {
  ASSIGN_OR_RETURN(const auto all, DevicesOf(priced_.machine->topology, priced_.backends));
  std::vector<PlacedDevice> places;
  for (DeviceId id : devices) places.push_back(all[id.index()]);
  return places;
}

std::optional<TaskBody> ProfilingSession::Within(const TaskBody& body) const {
  TaskBody own = body;
  bool within = true;
  const auto renumber = [&](DeviceId& id) {
    const auto at = std::find(devices_.begin(), devices_.end(), id);
    within = within && at != devices_.end();
    id = DeviceId(static_cast<int>(at - devices_.begin()));
  };
  if (auto* collective = std::get_if<CollectiveTask>(&own)) {
    for (DeviceId& id : collective->group) renumber(id);
    collective->bucket.clear();  // a bucket is measured, as it is priced, as one buffer
  } else {
    auto& task = std::get<TransferTask>(own);
    for (DeviceId& id : task.group) renumber(id);
    for (Transfer& transfer : task.transfers) {
      renumber(transfer.from);
      renumber(transfer.to);
    }
  }
  return within ? std::optional(std::move(own)) : std::nullopt;
}

void ProfilingSession::ListLinks(std::span<const TaskBody> all_wanted) {
  std::vector<TaskBody> wanted;
  for (const TaskBody& body : all_wanted) {
    if (auto own = Within(body)) wanted.push_back(*std::move(own));
  }
  absl::flat_hash_set<std::string> asked_for;
  for (const TaskBody& body : wanted) asked_for.insert(RecordOfCommunication(body).signature);
  const std::vector<TaskBody> typical = TypicalCommunication(static_cast<int>(devices_.size()));
  for (int64_t tasks : kStepTasks) {
    // Tasks of a GPU's step, which is replayed, follow each other without the host: what lies between
    // them is part of their own times.
    if (is_gpu_ && tasks > 1) break;
    ProfileRecord record = RecordOfStep(tasks);
    if (!Lists(record.signature, request_.add_samples)) continue;
    links_.push_back({std::move(record), [tasks](LinkProfiler& links, ProfilerOptions options) {
                        options.samples *= kStepRuns;
                        return links.MeasureStep(static_cast<int>(tasks), options);
                      }});
  }
  for (const auto bodies : {std::span(typical), std::span(std::as_const(wanted))}) {
    for (const TaskBody& body : bodies) {
      ProfileRecord record = RecordOfCommunication(body);
      const bool again = request_.add_samples && asked_for.contains(record.signature);
      if (!Lists(record.signature, again)) continue;
      links_.push_back(
          {std::move(record), [body](LinkProfiler& links, const ProfilerOptions& options) {
             return links.Measure(body, options);
           }});
    }
  }
}

void ProfilingSession::ListKernels(const WantedSignatures& wanted) {
  const Bytes memory = priced_.device(devices_[0]).memory;
  most_bytes_ = std::min(wanted.footprint, memory.value() / 4);
  const auto add = [this](const ProfiledWork& work) {
    if (Lists(RecordOfWork(work).signature, request_.add_samples)) AddToBatch(work);
  };
  for (KernelWork kernel : wanted.kernels) {
    const bool deterministic = kernel.signature.deterministic || !is_gpu_;
    kernel.signature =
        WithDeterminism(InPrecision(std::move(kernel.signature), precision_), deterministic);
    add(kernel);
    if (!adds_nondeterministic_) continue;
    kernel.signature = WithDeterminism(std::move(kernel.signature), false);
    add(kernel);
  }
  for (const MoveSignature& move : wanted.moves) add(move);
}

void ProfilingSession::AddToBatch(const ProfiledWork& work) {
  const int64_t more = OperandBytes(work);
  if (batches_.empty() || batches_.back().bytes + more > most_bytes_) batches_.emplace_back();
  batches_.back().works.push_back(work);
  batches_.back().bytes += more;
}

absl::StatusOr<std::unique_ptr<LinkProfiler>> ProfilingSession::OpenLinks() const {
  ASSIGN_OR_RETURN(const auto devices, Places(devices_));
  if (request_.open_links) return request_.open_links(devices);
  ASSIGN_OR_RETURN(auto communicator,
                   MakeCommunicator(CommunicatorBetween(devices),
                                    {.devices = static_cast<int>(devices.size())}));
  return LinkProfiler::Open(devices, std::move(communicator));
}

absl::StatusOr<std::unique_ptr<KernelProfiler>> ProfilingSession::OpenKernels(
    std::span<const PlacedDevice> devices) const {
  return request_.open_kernels ? request_.open_kernels(devices) : KernelProfiler::Open(devices);
}

absl::Status ProfilingSession::MeasureLinks(const ProfilerOptions& options) {
  if (links_.empty()) return absl::OkStatus();
  const double until = (Elapsed() + request_.seconds) / 2;
  // First those for which there was no time in the pass before.
  std::stable_sort(links_.begin(), links_.end(),
                   [](const LinkWork& a, const LinkWork& b) { return a.passes < b.passes; });
  ASSIGN_OR_RETURN(const auto profiler, OpenLinks());
  std::vector<ProfileRecord> records;
  std::vector<Measurement> measurements;
  for (LinkWork& work : links_) {
    if (IsOver(until)) break;
    ReportProgress(work.record.signature);
    ASSIGN_OR_RETURN(Measurement measurement, work.measure(*profiler, options));
    records.push_back(work.record);
    measurements.push_back(std::move(measurement));
    CountPass(1, work.passes);
  }
  return Write(std::move(records), std::move(measurements));
}

absl::Status ProfilingSession::MeasureKernels(const ProfilerOptions& options) {
  if (batches_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto devices, Places(at_once_));
  ASSIGN_OR_RETURN(const auto algorithms, KeptAlgorithms::GiveTo(devices, db_.path()));
  ASSIGN_OR_RETURN(const auto profiler, OpenKernels(devices));
  for (KernelBatch& batch : batches_) {
    if (IsOver(request_.seconds)) break;
    std::vector<ProfileRecord> records;
    for (const ProfiledWork& work : batch.works) {
      records.push_back(RecordOfWork(work));
    }
    ReportProgress(records[0].signature);
    ASSIGN_OR_RETURN(std::vector<Measurement> measurements,
                     profiler->Measure(batch.works, options));
    RETURN_IF_ERROR(Write(std::move(records), std::move(measurements)));
    RETURN_IF_ERROR(algorithms->Save());
    CountPass(batch.works.size(), batch.passes);
  }
  return absl::OkStatus();
}

absl::Status ProfilingSession::Write(std::vector<ProfileRecord> records,
                                     std::vector<Measurement> measurements) {
  std::vector<ProfileRecord> uncontended;
  for (size_t k = 0; k < records.size(); ++k) {
    ProfileRecord& record = records[k];
    record.scratch_bytes = measurements[k].scratch_bytes;
    record.measured_at = static_cast<int64_t>(std::time(nullptr));
    record.program = "partita";
    const bool again = repeats_ || doubtful_.open.contains(record.signature);
    record.repeats = again && is_last_pass_ ? 1 : 0;
    if (!measurements[k].uncontended_ns.empty()) {
      uncontended.push_back(record);
      uncontended.back().samples_ns = std::move(measurements[k].uncontended_ns);
    }
    record.samples_ns = std::move(measurements[k].samples_ns);
  }
  const auto most = static_cast<size_t>(request_.most_samples);
  RETURN_IF_ERROR(db_.AddSamples(UncontendedFingerprint(fingerprint_), uncontended, most));
  return db_.AddSamples(fingerprint_, records, most);
}

double ProfilingSession::Elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

bool ProfilingSession::IsOver(double seconds) const {
  return Elapsed() >= seconds || IsSet(request_.stop);
}

void ProfilingSession::ReportProgress(const std::string& what) const {
  if (!request_.progress) return;
  request_.progress(result_.known + task_passes_ / passes_, result_.wanted, what);
}

void ProfilingSession::CountPass(size_t tasks, int& passes) {
  const bool is_first = passes++ == 0;
  if (repeats_) return;
  if (is_first) result_.measured += static_cast<int64_t>(tasks);
  task_passes_ += static_cast<int64_t>(tasks);
}

}  // namespace partita
