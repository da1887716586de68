#include "cost_model/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "cost_model/profile_db.h"
#include "cost_model/synthetic.h"
#include "graph/collective/collective.h"
#include "tests/cost_model/signatures.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const DeviceFingerprint kHere{"this processor", "backend=test threads=1"};
const DeviceFingerprint kWider{"this processor", "backend=test threads=2"};
const DeviceFingerprint kElsewhere{"another processor", "backend=test threads=1"};

class ProfileDbTest : public ::testing::Test {
 protected:
  ProfileDbTest() {
    path_ = (std::filesystem::temp_directory_path() /
             ("profile_db_test_" + std::to_string(getpid()) + ".db"))
                .string();
    std::filesystem::remove(path_);
  }
  ~ProfileDbTest() override { std::filesystem::remove(path_); }

  ProfileDb Create() { return ProfileDb::Open(path_, ProfileDb::Mode::kCreate).value(); }
  absl::Status OpenStatus(ProfileDb::Mode mode = ProfileDb::Mode::kRead) {
    return ProfileDb::Open(path_, mode).status();
  }
  void WriteFile(const std::string& content) { std::ofstream(path_, std::ios::binary) << content; }
  void ChangeFile(const char* sql) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(raw);
    sqlite3_close(raw);
  }

  std::string path_;
};

ProfileRecord Sampled(ProfileRecord record, std::vector<int64_t> samples) {
  record.samples_ns = std::move(samples);
  record.scratch_bytes = 77;
  record.measured_at = 1'700'000'000;
  record.program = "partita 0.1, test";
  return record;
}

std::vector<ProfileRecord> SomeRecords() {
  const Collective collective = MakeAllReduce(2, 1000);
  const std::vector<DeviceId> group = {DeviceId(0), DeviceId(1)};
  return {Sampled(RecordOf(ConvForward(8)), {30, 10, 20}),
          Sampled(RecordOf(Linear(8, 64, 32)), {5, 6}),
          Sampled(RecordOf(MoveSignature{.elements = 100, .run = 10}), {9}),
          Sampled(RecordOf(CollectiveCall{&collective, "ring", group}), {1000, 2000})};
}

TEST(TimingTest, MedianAndDeviation) {
  const int64_t odd[] = {30, 10, 20};
  EXPECT_EQ(TimingOf(odd, 5), (Timing{20, 0.5, 5, 10, 30, 3}));
  const int64_t even[] = {11, 10, 1000, 20};
  EXPECT_EQ(TimingOf(even).median_ns, 15);
}

TEST(ProfileTest, KernelsOfOneFamilyDifferInSize) {
  EXPECT_EQ(RecordOf(ConvForward(8)).family, RecordOf(ConvForward(16)).family);
  EXPECT_EQ(RecordOf(ConvForward(8)).variant, RecordOf(ConvForward(16)).variant);
  EXPECT_NE(RecordOf(ConvForward(8)).signature, RecordOf(ConvForward(16)).signature);
  EXPECT_NE(RecordOf(ConvForward(8)).family, RecordOf(Linear(8, 64, 32)).family);
  KernelSignature native = ConvForward(8);
  native.inputs[0].format = Format::kNative;
  EXPECT_NE(RecordOf(ConvForward(8)).family, RecordOf(native).family);
}

TEST(ProfileTest, KernelsThatAreNotDeterministicAreAFamilyOfTheirOwn) {
  const KernelSignature conv = ConvForward(8);
  for (const Precision precision : {Precision::kFloat32, Precision::kTf32}) {
    const ProfileRecord steady = RecordOf(InPrecision(conv, precision));
    const ProfileRecord changing = RecordOf(WithDeterminism(InPrecision(conv, precision), false));
    EXPECT_NE(steady.signature, changing.signature);
    EXPECT_NE(steady.family, changing.family);
    EXPECT_TRUE(IsDeterministic(steady));
    EXPECT_FALSE(IsDeterministic(changing));
    EXPECT_EQ(changing.compute_type, precision);
  }
  // Without products there is one kind.
  EXPECT_EQ(WithDeterminism(ReluForward(8), false), ReluForward(8));
}

TEST(ProfileTest, FingerprintNamesWhatMatters) {
  const Machine machine = FindMachine("local", 2, true).value();
  const DeviceFingerprint two = FingerprintOf(machine, DeviceId(1), "cpu-2.6.3");
  EXPECT_EQ(two.hardware, machine.classes[0].hardware);
  EXPECT_THAT(two.configuration, HasSubstr("backend=cpu-2.6.3 threads="));
  EXPECT_THAT(two.configuration, HasSubstr("devices=2"));
  EXPECT_NE(two, FingerprintOf(FindMachine("local", 1).value(), DeviceId(0), "cpu-2.6.3"));
}

// What is measured on two devices prices four that take turns on their cores.
TEST(ProfileTest, DevicesThatTakeTurnsOnCoresHaveTheFingerprintOfThoseThatDoNot) {
  const Machine two = FindMachine("local", 2, true).value();
  Machine four = two;
  std::vector<Device> devices;
  Link net{.name = "net", .bytes_per_second = 1, .shared = true};
  for (int d = 0; d < 4; ++d) {
    devices.push_back(two.topology.device(DeviceId(d % 2)));
    devices.back().name = "cpu" + std::to_string(d);
    devices.back().cores = {d % 2};
    devices.back().node = d;
    devices.back().host = "box";
    net.ends.push_back(devices.back().name);
  }
  four.topology = DeviceTopology::Create(devices, {net}).value();
  const DeviceFingerprint shared = FingerprintOf(four, DeviceId(3), "cpu");
  EXPECT_EQ(shared.hardware, two.classes[0].hardware);
  EXPECT_THAT(shared.configuration, HasSubstr("devices=2 cores=2"));
  for (Device& device : devices) device.node = 0;
  four.topology = DeviceTopology::Create(devices, {net}).value();
  EXPECT_THAT(FingerprintOf(four, DeviceId(3), "cpu").configuration,
              HasSubstr("devices=2 of 4 cores=2"));
}

TEST_F(ProfileDbTest, RecordsComeBackAsTheyWere) {
  const std::vector<ProfileRecord> records = SomeRecords();
  {
    ProfileDb db = Create();
    ASSERT_TRUE(db.Insert(kHere, records).ok());
  }
  const ProfileDb db = ProfileDb::Open(path_, ProfileDb::Mode::kRead).value();
  const std::vector<ProfileRecord> back = db.Records(kHere).value();
  EXPECT_THAT(back, ::testing::UnorderedElementsAreArray(records));
  for (const ProfileRecord& record : back) {
    for (const ProfileRecord& wanted : records) {
      if (record.signature != wanted.signature) continue;
      EXPECT_EQ(record.family, wanted.family);
      EXPECT_EQ(record.variant, wanted.variant);
      EXPECT_EQ(record.bytes, wanted.bytes);
      EXPECT_EQ(record.run, wanted.run);
      EXPECT_EQ(record.work.multiply_adds, wanted.work.multiply_adds);
      EXPECT_EQ(record.work.other, wanted.work.other);
    }
  }
  const Profile profile = db.Load(kHere).value();
  ASSERT_NE(profile.Find(ConvForward(8)), nullptr);
  EXPECT_EQ(*profile.Find(ConvForward(8)), (Timing{20, 0.5, 77, 10, 30, 3}));
  EXPECT_EQ(profile.Find(ConvForward(9)), nullptr);
}

TEST_F(ProfileDbTest, AlgorithmsAreKeptBesideRecordsAndALaterOneReplaces) {
  const ProfileDb::Algorithm one{"gpu", "a product", "algorithm 1"},
      two{"gpu", "a product", "algorithm 2"}, other{"other gpu", "a product", "algorithm 1"};
  ProfileDb db = Create();
  EXPECT_THAT(db.Algorithms().value(), SizeIs(0));  // as in files of older programs
  ASSERT_TRUE(db.AddAlgorithms(std::vector{one, other}).ok());
  ASSERT_TRUE(db.AddAlgorithms(std::vector{two}).ok());
  EXPECT_EQ(ProfileDb::Open(path_, ProfileDb::Mode::kRead)->Algorithms().value(),
            (std::vector{two, other}));
  EXPECT_THAT(db.Devices().value(), SizeIs(0));
}

TEST_F(ProfileDbTest, WhatIsForgottenIsGoneOnAllDevices) {
  const DeviceFingerprint other{kHere.hardware, "another configuration"};
  ProfileDb db = Create();
  ASSERT_TRUE(db.Insert(kHere, SomeRecords()).ok());
  ASSERT_TRUE(db.Insert(other, SomeRecords()).ok());
  const int64_t all = static_cast<int64_t>(db.Signatures(kHere)->size());
  EXPECT_EQ(db.Forget("no such signature").value(), 0);
  EXPECT_EQ(db.Forget(ToString(ConvForward(8))).value(), 2);
  for (const DeviceFingerprint& device : {kHere, other}) {
    EXPECT_FALSE(db.Signatures(device)->contains(ToString(ConvForward(8))));
    EXPECT_EQ(static_cast<int64_t>(db.Signatures(device)->size()), all - 1);
  }
  EXPECT_EQ(db.Forget("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ProfileDbTest, InsertingAgainReplaces) {
  ProfileDb db = Create();
  ASSERT_TRUE(db.Insert(kHere, SomeRecords()).ok());
  ASSERT_TRUE(
      db.Insert(kHere, std::vector{Sampled(RecordOf(ConvForward(8)), {500, 600, 700})}).ok());
  EXPECT_THAT(db.Signatures(kHere).value(), SizeIs(4));
  EXPECT_TRUE(db.Signatures(kHere)->contains(ToString(ConvForward(8))));
  EXPECT_EQ(db.Load(kHere)->Find(ConvForward(8))->median_ns, 600);
}

TEST_F(ProfileDbTest, AddedSamplesComeBehindThoseThatAreThere) {
  ProfileDb db = Create();
  auto add = [&](std::vector<int64_t> samples) {
    return db.AddSamples(kHere, std::vector{Sampled(RecordOf(ConvForward(8)), samples)}, 5);
  };
  ASSERT_TRUE(db.Insert(kElsewhere, std::vector{Sampled(RecordOf(ConvForward(8)), {9})}).ok());
  ASSERT_TRUE(add({500, 600}).ok());
  ASSERT_TRUE(add({700}).ok());
  EXPECT_EQ(db.Records(kHere)->at(0).samples_ns, (std::vector<int64_t>{500, 600, 700}));
  ASSERT_TRUE(add({100, 200, 300}).ok());
  EXPECT_EQ(db.Records(kHere)->at(0).samples_ns, (std::vector<int64_t>{600, 700, 100, 200, 300}))
      << "the latest five";
  EXPECT_EQ(db.Load(kHere)->Find(ConvForward(8))->median_ns, 300);
  EXPECT_EQ(add({400, 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(db.Records(kHere)->at(0).samples_ns.back(), 300);
  EXPECT_EQ(db.Records(kElsewhere)->at(0).samples_ns, (std::vector<int64_t>{9}));
}

// What a program made that knew neither bounds nor repeats.
constexpr char kToFormat1[] =
    "ALTER TABLE record DROP COLUMN low_ns; ALTER TABLE record DROP COLUMN high_ns;"
    "ALTER TABLE record DROP COLUMN compute_type;"
    "ALTER TABLE record DROP COLUMN repeats; PRAGMA user_version = 1";

// Where signatures alone named compute types.
TEST_F(ProfileDbTest, ComputeTypesOfFormat2AreThoseOfItsSignatures) {
  const KernelSignature half = InPrecision(ConvForward(8), Precision::kFloat16);
  std::vector<ProfileRecord> records = SomeRecords();
  records.push_back(Sampled(RecordOf(half), {100}));
  ASSERT_TRUE(Create().Insert(kHere, records).ok());
  ChangeFile("ALTER TABLE record DROP COLUMN compute_type; PRAGMA user_version = 2");
  const auto check = [&](const ProfileDb& db) {
    int found = 0;
    const std::vector<ProfileRecord> found_records = db.Records(kHere).value();
    for (const ProfileRecord& record : found_records) {
      const bool is_half = record.signature == ToString(half);
      EXPECT_EQ(record.compute_type, is_half ? Precision::kFloat16 : Precision::kFloat32);
      found += is_half ? 1 : 0;
    }
    EXPECT_EQ(found, 1);
  };
  check(ProfileDb::Open(path_, ProfileDb::Mode::kRead).value());
  check(ProfileDb::Open(path_, ProfileDb::Mode::kWrite).value());
  check(ProfileDb::Open(path_, ProfileDb::Mode::kRead).value());
  ChangeFile("UPDATE record SET compute_type = 'float8'");
  EXPECT_EQ(Create().Records(kHere).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ProfileDbTest, FilesOfTheFormatBeforeAreReadAndMadeFilesOfThisOne) {
  const std::vector<ProfileRecord> records = SomeRecords();
  ASSERT_TRUE(Create().Insert(kHere, records).ok());
  ChangeFile(kToFormat1);
  {
    const ProfileDb old = ProfileDb::Open(path_, ProfileDb::Mode::kRead).value();
    EXPECT_THAT(old.Records(kHere).value(), ::testing::UnorderedElementsAreArray(records));
    EXPECT_EQ(old.Load(kHere)->Find(ConvForward(8))->high_ns, 30) << "samples tell";
  }
  std::filesystem::permissions(path_, std::filesystem::perms::owner_read);
  EXPECT_EQ(ProfileDb::Open(path_, ProfileDb::Mode::kRead)->Records(kHere)->size(), 4u);
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  ProfileRecord again = Sampled(RecordOf(ConvForward(8)), {40});
  again.repeats = 1;
  {
    ProfileDb db = ProfileDb::Open(path_, ProfileDb::Mode::kWrite).value();
    EXPECT_THAT(db.Records(kHere).value(), ::testing::UnorderedElementsAreArray(records));
    ASSERT_TRUE(db.AddSamples(kHere, std::span(&again, 1), 64).ok());
    ASSERT_TRUE(db.AddSamples(kHere, std::span(&again, 1), 64).ok());
  }
  const std::vector<ProfileRecord> after = Create().Records(kHere).value();
  for (const ProfileRecord& record : after) {
    EXPECT_EQ(record.repeats, record.signature == again.signature ? 2 : 0);
  }
  ChangeFile("UPDATE record SET repeats = -1");
  EXPECT_EQ(Create().Records(kHere).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ProfileDbTest, ABadRecordAddsNothing) {
  ProfileDb db = Create();
  std::vector<ProfileRecord> records = SomeRecords();
  records.back().samples_ns = {5, 0};
  EXPECT_EQ(db.Insert(kHere, records).code(), absl::StatusCode::kInvalidArgument);
  records.back().samples_ns = {};
  EXPECT_EQ(db.Insert(kHere, records).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(db.Records(kHere).value(), SizeIs(0));
}

TEST_F(ProfileDbTest, ForeignHardwareIsRefusedByName) {
  ProfileDb db = Create();
  EXPECT_TRUE(db.CheckHardware(std::span(&kHere, 1)).ok());
  ASSERT_TRUE(db.Insert(kElsewhere, SomeRecords()).ok());
  const absl::Status refused = db.Load(kHere).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(ToString(kHere)));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(ToString(kElsewhere)));
  const Profile foreign = db.Load(kHere, /*allow_foreign=*/true).value();
  EXPECT_EQ(foreign.device(), kElsewhere);
  EXPECT_EQ(foreign.size(), 4u);
}

TEST_F(ProfileDbTest, OtherConfigurationsAreKeptApart) {
  ProfileDb db = Create();
  ASSERT_TRUE(db.Insert(kHere, SomeRecords()).ok());
  EXPECT_EQ(db.Load(kWider)->size(), 0u);
  ASSERT_TRUE(db.Insert(kWider, std::vector{Sampled(RecordOf(ConvForward(8)), {7, 7, 7})}).ok());
  EXPECT_EQ(db.Load(kWider)->Find(ConvForward(8))->median_ns, 7);
  EXPECT_EQ(db.Load(kHere)->Find(ConvForward(8))->median_ns, 20);
  EXPECT_EQ(db.Devices().value(), (std::vector<DeviceFingerprint>{kHere, kWider}));
}

TEST_F(ProfileDbTest, AbsentFilesAreNotFoundUnlessCreated) {
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenStatus(ProfileDb::Mode::kWrite).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(OpenStatus(ProfileDb::Mode::kCreate).ok());
  EXPECT_TRUE(OpenStatus(ProfileDb::Mode::kCreate).ok());
  EXPECT_TRUE(OpenStatus().ok());
}

TEST_F(ProfileDbTest, OtherFilesAreInvalidArguments) {
  for (const std::string& content :
       {std::string("this is no database, it is text, and it is longer than a header of one\n"),
        std::string("SQLite format 3\0 and then nothing of use", 40), std::string("x"),
        std::string()}) {
    WriteFile(content);
    EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kInvalidArgument) << OpenStatus();
    if (!content.empty()) {
      EXPECT_EQ(OpenStatus(ProfileDb::Mode::kCreate).code(), absl::StatusCode::kInvalidArgument);
    }
  }
  std::filesystem::remove(path_);
  ChangeFile("CREATE TABLE notes (text TEXT)");
  EXPECT_THAT(std::string(OpenStatus(ProfileDb::Mode::kCreate).message()),
              HasSubstr("not a profile database"));
}

TEST_F(ProfileDbTest, DamagedAndForgedFilesAreInvalidArguments) {
  ASSERT_TRUE(Create().Insert(kHere, SomeRecords()).ok());
  const auto load = [&] {
    const auto db = ProfileDb::Open(path_, ProfileDb::Mode::kRead);
    return db.ok() ? db->Load(kHere).status() : db.status();
  };
  ASSERT_TRUE(load().ok());
  std::ifstream file(path_, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  for (size_t cut : {size_t{200}, good.size() / 2, good.size() - 5000}) {
    WriteFile(good.substr(0, cut));
    EXPECT_EQ(load().code(), absl::StatusCode::kInvalidArgument) << cut;
  }
  for (const char* sql :
       {"UPDATE record SET samples_ns = x'0102'", "UPDATE record SET samples_ns = x''",
        "UPDATE record SET samples_ns = x'ffffffffffffffff'", "UPDATE record SET bytes = -1",
        "UPDATE record SET kind = 9", "ALTER TABLE record RENAME COLUMN run TO ran",
        "PRAGMA user_version = 99", "DROP TABLE record"}) {
    WriteFile(good);
    ChangeFile(sql);
    EXPECT_EQ(load().code(), absl::StatusCode::kInvalidArgument) << sql << ": " << load();
  }
  int changed = 0;
  for (size_t at = 0; at < good.size(); at += 61) {
    std::string bad = good;
    bad[at] ^= 0x5a;
    WriteFile(bad);
    const absl::Status status = load();
    changed += !status.ok();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument ||
                status.code() == absl::StatusCode::kFailedPrecondition)
        << at << ": " << status;
  }
  EXPECT_GT(changed, 5);
}

ProfileRequest Through(const std::string& backend) {
  return {.backend = [backend](const Device&) { return backend; }};
}

TEST_F(ProfileDbTest, ProfilesAreSharedByEqualDevices) {
  const Machine machine = FindMachine("local", 2, true).value();
  ProfileDb db = Create();
  EXPECT_EQ(LoadProfiles(db, machine, Through("test")).value(), DeviceProfiles(2));
  ASSERT_TRUE(db.Insert(FingerprintOf(machine, DeviceId(0), "test"), SomeRecords()).ok());
  const DeviceProfiles profiles = LoadProfiles(db, machine, Through("test")).value();
  ASSERT_NE(profiles[0], nullptr);
  EXPECT_EQ(profiles[0], profiles[1]);
  EXPECT_EQ(LoadProfiles(db, FindMachine("p100-4x4").value(), Through("test")).value(),
            DeviceProfiles(16));
}

// Cores and a GPU in one file: what is known of one is used while nothing is of the other.
TEST_F(ProfileDbTest, ClassesOfAMachineHaveProfilesOfTheirOwn) {
  Machine machine = FindMachine("local", 2, true).value();
  machine.classes.push_back(machine.classes[0]);
  machine.classes[1].name = "gpu";
  machine.classes[1].hardware = "another";
  std::vector<Device> devices(machine.topology.devices().begin(), machine.topology.devices().end());
  devices[1].device_class = "gpu";
  const auto links = machine.topology.links();
  machine.topology = DeviceTopology::Create(devices, {links.begin(), links.end()}).value();
  ProfileDb db = Create();
  ASSERT_TRUE(db.Insert(FingerprintOf(machine, DeviceId(0), "test"), SomeRecords()).ok());
  DeviceProfiles profiles = LoadProfiles(db, machine, Through("test")).value();
  EXPECT_NE(profiles[0], nullptr);
  EXPECT_EQ(profiles[1], nullptr);
  ASSERT_TRUE(db.Insert(FingerprintOf(machine, DeviceId(1), "test"), SomeRecords()).ok());
  profiles = LoadProfiles(db, machine, Through("test")).value();
  ASSERT_NE(profiles[1], nullptr);
  EXPECT_NE(profiles[0], profiles[1]);
  machine.classes[0].hardware = machine.classes[1].hardware = "neither";
  EXPECT_EQ(LoadProfiles(db, machine, Through("test")).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ProfileRecordTest, OnlyProductsAreKeyedByComputeType) {
  const ProfileRecord plain = RecordOf(ConvForward(8)),
                      tf32 = RecordOf(InPrecision(ConvForward(8), Precision::kTf32));
  EXPECT_EQ(plain.signature, ToString(ConvForward(8)));
  EXPECT_EQ(tf32.signature, plain.signature + " precision=tf32");
  EXPECT_NE(tf32.family, plain.family);
  EXPECT_EQ(InPrecision(ReluForward(8), Precision::kTf32), ReluForward(8));
  for (const PrecisionRow& row : kPrecisions) {
    EXPECT_EQ(RecordOf(InPrecision(ConvForward(8), row.precision)).compute_type, row.precision);
  }
}

TEST(ProfileRecordTest, ConversionsAreKeyedByBothTypes) {
  const MoveSignature narrow{MoveSignature::Kind::kReorder, DType::kFloat32, 100, 100,
                             DType::kFloat64};
  EXPECT_EQ(RecordOf(narrow).signature, "move.reorder f64->f32 100 run=100");
  EXPECT_EQ(RecordOf(narrow).bytes, 800);
  MoveSignature wide = narrow;
  std::swap(wide.dtype, wide.from);
  EXPECT_NE(RecordOf(wide).family, RecordOf(narrow).family);
  EXPECT_EQ(RecordOf(MoveSignature{.elements = 100, .run = 10}).signature,
            "move.copy f32 100 run=10");
}

TEST_F(ProfileDbTest, ARecordKeepsItsComputeType) {
  ProfileDb db = Create();
  const KernelSignature plain = ConvForward(8), half = InPrecision(plain, Precision::kFloat16);
  ASSERT_TRUE(db.Insert(kHere, std::vector{Sampled(RecordOf(plain), {500})}).ok());
  EXPECT_EQ(db.Load(kHere).value().Find(half), nullptr);
  ASSERT_TRUE(db.Insert(kHere, std::vector{Sampled(RecordOf(half), {100})}).ok());
  const Profile both = db.Load(kHere).value();
  EXPECT_EQ(both.Find(plain)->median_ns, 500);
  EXPECT_EQ(both.Find(half)->median_ns, 100);
  EXPECT_EQ(db.Records(kHere).value()[1].compute_type, Precision::kFloat16);
}

}  // namespace
}  // namespace partita
