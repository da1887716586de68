// What measuring a machine with GPUs says; devices in a memory that the host does not reach stand
// in for GPUs.
#include "tools/workflow/profiling/machine_measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cost_model/gpu_machine.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "runtime/profiler/link_profiler.h"
#include "tests/testing/far_memory_backend.h"
#include "tests/testing/ok.h"
#include "tools/workflow/profiling/profiling_session.h"

namespace partita {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;

std::vector<PlacedDevice> FarDevices(int count) {
  const auto backend = FarMemoryBackend(Ok(MakeBackend("reference")));
  std::vector<PlacedDevice> devices;
  for (int d = 0; d < count; ++d) devices.push_back({backend, {.index = d + 1}});
  return devices;
}

// Moves nothing; each member waits in Enqueue for the other one, as NCCL's may.
class MeetingCommunicator : public Communicator {
 public:
  explicit MeetingCommunicator(bool& missed) : missed_(missed) {}
  absl::Status Prepare(std::span<const Task* const>, std::span<BackendDevice* const>) override {
    return absl::OkStatus();
  }
  bool EnqueueMeetsPeers() const override { return true; }
  void Enqueue(const CommunicationArguments&, int64_t, Stream&, WorkTiming*) override {
    std::unique_lock lock(mutex_);
    const int meeting = arrived_++ / 2;
    met_.notify_all();
    if (!met_.wait_for(lock, std::chrono::seconds(5), [&] { return arrived_ >= 2 * meeting + 2; }))
      missed_ = true;
  }
  void Abort(const absl::Status&) override {}
  std::vector<Bytes> BytesReceived() const override { return {}; }

 private:
  bool& missed_;
  std::mutex mutex_;
  std::condition_variable met_;
  int arrived_ = 0;
};

TEST(MachineMeasurementTest, DevicesThatMeetWhileTheyEnqueueAreMeasured) {
  const std::vector<PlacedDevice> devices = FarDevices(2);
  bool missed = false;
  const auto links = Ok(LinkProfiler::Open(devices, std::make_unique<MeetingCommunicator>(missed)));
  const Measurement measured =
      Ok(links->Measure(TypicalCommunication(2)[0], {.samples = 1, .least_samples = 1}));
  EXPECT_FALSE(missed);
  EXPECT_EQ(measured.samples_ns.size(), 1u);
}

TEST(MachineMeasurementTest, AStepOfGpusIsMeasured) {
  const std::vector<PlacedDevice> devices = FarDevices(2);
  bool missed = false;
  const auto links = Ok(LinkProfiler::Open(devices, std::make_unique<MeetingCommunicator>(missed)));
  EXPECT_EQ(Ok(links->MeasureStep(3, {.samples = 2})).samples_ns.size(), 2u);
}

HostCopy Copy(bool pinned, bool to_device, int64_t bytes, int64_t nanos) {
  return {pinned, to_device, bytes, {nanos, nanos, nanos}};
}

TEST(MachineMeasurementTest, LinksOfGpusAreTheSlowerDirectionOfPinnedCopies) {
  GpuHost host{.driver = "580"};
  host.gpus.push_back({.name = "NVIDIA X1", .memory = Bytes(1 << 30)});
  // 10 us and 20 GB/s to the GPU, 10 GB/s back; pageable ones are slower.
  std::vector<HostCopy> copies;
  for (const int64_t bytes : {int64_t{1'000'000}, int64_t{100'000'000}}) {
    copies.push_back(Copy(true, true, bytes, 10'000 + bytes / 20));
    copies.push_back(Copy(true, false, bytes, 10'000 + bytes / 10));
    copies.push_back(Copy(false, true, bytes, 50'000 + bytes));
  }
  const Machine machine = Ok(WithHostCopies(Ok(MachineOf(host, {})), copies));
  EXPECT_NEAR(static_cast<double>(machine.topology.links()[0].bytes_per_second), 10e9, 1e6);
  EXPECT_NEAR(static_cast<double>(machine.topology.links()[0].latency.value()), 10'000, 10);
  EXPECT_FALSE(WithHostCopies(machine, {}).ok());
}

TEST(MachineMeasurementTest, TablesHaveTheWordsOfNcclTests) {
  MeasuredMachine measured;
  GpuHost host{.driver = "580"};
  host.gpus.push_back({.name = "NVIDIA X1", .memory = Bytes(1 << 30)});
  measured.machine = Ok(MachineOf(host, {}));
  measured.method = "how";
  EXPECT_EQ(CollectiveTable(measured.collectives), "");
  EXPECT_EQ(HostCopyTable(measured.host_copies), "");
  measured.collectives.push_back({"x1", "all_reduce", "ring", 4, 1'000'000,
                                  BandwidthOf(MakeAllReduce(4, 1'000'000), 4, 1'000'000)});
  measured.host_copies = {Copy(true, true, 1 << 20, 1'000'000), Copy(false, false, 1 << 20, 4000)};
  EXPECT_EQ(CollectiveTable(measured.collectives),
            "class  collective  algorithm  ranks    bytes       time      algbw      busbw\n"
            "   x1  all_reduce       ring      4  4000000  1000.0 us  4.00 GB/s  6.00 GB/s\n");
  EXPECT_THAT(HostCopyTable(measured.host_copies), HasSubstr("pinned     to GPU  1048576"));
  EXPECT_THAT(HostCopyTable(measured.host_copies), HasSubstr("pageable   from GPU"));
  const std::string text = MeasuredMachineText(measured);
  EXPECT_THAT(text, HasSubstr("# how\n#\n# class"));
  EXPECT_EQ(Ok(ParseMachine(text, "test")), measured.machine);
}

TEST(MachineMeasurementTest, KernelsOfADeviceThatTheHostDoesNotReachAreMeasured) {
  const auto profiler = Ok(KernelProfiler::Open(FarDevices(2)));
  KernelWork relu{.signature = {.attrs = Relu{},
                                .pass = Pass::Forward(),
                                .inputs = {{{DType::kFloat32, {64}}}},
                                .outputs = {{{DType::kFloat32, {64}}}}},
                  .fresh = {true},
                  .rectified = {true},
                  .in_place_of = {}};
  const std::vector<ProfiledWork> works = {
      relu, MoveSignature{MoveSignature::Kind::kAdd, DType::kFloat32, 256, 16}};
  const auto measured =
      Ok(profiler->Measure(works, {.samples = 3, .footprint = 1 << 16, .warm = true}));
  ASSERT_EQ(measured.size(), works.size());
  for (const Measurement& one : measured) {
    EXPECT_EQ(one.samples_ns.size(), 6u);  // of both devices
    EXPECT_EQ(one.warm_ns.size(), 6u);
    EXPECT_EQ(one.uncontended_ns.size(), 3u);
    EXPECT_THAT(one.samples_ns, Each(Gt(0)));
  }
}

TEST(MachineMeasurementTest, CommunicationOfSuchDevicesIsMeasured) {
  const auto devices = FarDevices(2);
  const auto links =
      Ok(LinkProfiler::Open(devices, Ok(MakeCommunicator("streams", {.devices = 2}))));
  const std::vector<TaskBody> typical = TypicalCommunication(2);
  for (size_t k = 0; k < typical.size(); k += 7) {
    const TaskBody& body = typical[k];
    const Measurement measured = Ok(links->Measure(body, {.samples = 1, .seconds = 0.001}));
    EXPECT_EQ(measured.samples_ns, measured.uncontended_ns);
    EXPECT_THAT(measured.samples_ns, Each(Gt(0)));
  }
}

TEST(MachineMeasurementTest, EveryKindOfHostCopyIsMeasured) {
  const auto copies = Ok(MeasureHostCopies(FarDevices(1)[0], {4, 4096}, {.samples = 2}));
  ASSERT_EQ(copies.size(), 8u);
  for (const HostCopy& copy : copies) EXPECT_EQ(copy.samples_ns.size(), 2u);
}

}  // namespace
}  // namespace partita
