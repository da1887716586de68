// Serial training equals PyTorch: every reference in tests/data/oracle, and the small models of the
// zoo in tests/data/references, from the same weights on the same batches, within the tolerance that
// the reference states.

#include "runtime/serial/serial_reference.h"

#include <cmath>

#include "gmock/gmock.h"
#include "graph/support/check.h"
#include "gtest/gtest.h"
#include "runtime/train/reference/reference_model.h"

namespace partita {
namespace {

ReferenceFolder Load(const std::string& name) {
  auto folder = LoadReferenceFolder(PARTITA_TEST_DATA "/" + name);
  CHECK(folder.ok()) << folder.status();
  return *std::move(folder);
}

RunValues Train(const ReferenceFolder& reference) {
  const auto model = LoadReferenceModel(reference);
  CHECK(model.ok()) << model.status();
  auto values = TrainSeriallyOnReference(*model, reference);
  CHECK(values.ok()) << values.status();
  return *std::move(values);
}

std::string KindOf(const std::string& name) { return name.substr(0, name.find('/')); }

// Ten tolerances of the largest value of a kind.
double TenTolerances(const ReferenceFolder& reference, const std::string& kind) {
  double largest = 0;
  for (const auto& [name, values] : reference.expected) {
    if (KindOf(name) != kind) continue;
    for (double value : values) largest = std::max(largest, std::abs(value));
  }
  return 10 * reference.tolerance.at(kind) * largest;
}

std::string ModelOf(const ::testing::TestParamInfo<const char*>& info) {
  const std::string folder = info.param;
  return folder.substr(folder.find('/') + 1);
}

class SerialReferenceTest : public ::testing::TestWithParam<const char*> {};

// And of each kind of value, one element that is off by ten tolerances is found and named.
TEST_P(SerialReferenceTest, TrainsAsPyTorchDoesAndFindsAWrongValueOfEachKind) {
  const ReferenceFolder reference = Load(GetParam());
  const RunValues got = Train(reference);
  const ReferenceComparison comparison = CompareWithReference(reference, got);
  EXPECT_TRUE(comparison.equal) << comparison.first_difference;
  EXPECT_EQ(comparison.tensors, static_cast<int64_t>(reference.expected.size()));
  std::printf("%s: %d tensors, worst %s at %.2f of its tolerance\n", GetParam(),
              static_cast<int>(comparison.tensors), comparison.worst.c_str(),
              comparison.worst_share);
  for (const auto& [kind, tolerance] : reference.tolerance) {
    ReferenceFolder moved = reference;
    auto first = moved.expected.begin();
    while (KindOf(first->first) != kind) ++first;
    first->second[first->second.size() / 2] += TenTolerances(reference, kind);
    const ReferenceComparison negative = CompareWithReference(moved, got);
    EXPECT_FALSE(negative.equal) << kind;
    EXPECT_THAT(negative.first_difference, ::testing::StartsWith(first->first));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SerialReferenceTest,
                         ::testing::Values("oracle/mlp", "oracle/lenet", "oracle/alexnet_s_tiny",
                                           "oracle/resnet_tiny"),
                         ModelOf);
INSTANTIATE_TEST_SUITE_P(Zoo, SerialReferenceTest,
                         ::testing::Values("references/alexnet_tiny", "references/bert_tiny",
                                           "references/gpt_tiny", "references/inception_v3_tiny",
                                           "references/lstm_exported", "references/nmt_tiny",
                                           "references/resnet101_tiny", "references/rnnlm_tiny",
                                           "references/rnntc_tiny", "references/vit_tiny"),
                         ModelOf);

TEST(ReferenceTest, ForgottenMomentumOrWeightDecayIsFound) {
  const ReferenceFolder reference = Load("oracle/alexnet_s_tiny");
  for (double ReferenceFolder::* parameter :
       {&ReferenceFolder::momentum, &ReferenceFolder::weight_decay}) {
    ReferenceFolder wrong = reference;
    wrong.*parameter = 0;
    EXPECT_FALSE(CompareWithReference(reference, Train(wrong)).equal);
  }
}

TEST(ReferenceFolderTest, OfAModelOfTheZooEveryTrainedWeightIsWanted) {
  ReferenceFolder reference = Load("references/rnnlm_tiny");
  reference.model = "rnntc_tiny";
  EXPECT_THAT(std::string(LoadReferenceModel(reference).status().message()),
              ::testing::HasSubstr("'lstm.weight_ih_l2'"));
  reference.model = "rnnlm_little";
  EXPECT_EQ(LoadReferenceModel(reference).status().code(), absl::StatusCode::kNotFound);
}

TEST(ReferenceFolderTest, WrongFoldersAreErrors) {
  EXPECT_EQ(LoadReferenceFolder("/nowhere").status().code(), absl::StatusCode::kNotFound);
  ReferenceFolder reference = Load("oracle/mlp");
  reference.batch_shape[0] = 7;
  const auto model = LoadReferenceModel(reference);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(TrainSeriallyOnReference(*model, reference).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace partita
