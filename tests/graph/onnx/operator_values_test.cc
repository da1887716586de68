// What imported operators compute, against onnxruntime (tests/data/onnx_operators/generate.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/model/rebatch.h"
#include "graph/onnx/import.h"
#include "runtime/serial/serial_trainer.h"
#include "runtime/train/data/safetensors.h"

namespace partita {
namespace {

const std::string kFolder = PARTITA_TEST_DATA "/onnx_operators/";

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class OperatorValuesTest : public testing::TestWithParam<std::string> {};

TEST_P(OperatorValuesTest, AreThoseOfOnnxruntime) {
  const auto expected = SafetensorsFile::Open(kFolder + "expected.safetensors");
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto x = expected->Floats(GetParam() + "/x");
  const auto y = expected->Floats(GetParam() + "/y");
  ASSERT_TRUE(x.ok() && y.ok());
  const bool frozen = GetParam().starts_with("frozen_");
  const auto model = ImportOnnx(kFolder + GetParam() + ".onnx", {.freeze_bn = frozen});
  ASSERT_TRUE(model.ok()) << model.status();
  const Graph& graph = model->graph;

  SerialTrainer serial(graph);
  ASSERT_TRUE(serial.Set(graph.only(TensorRole::kSamples), *x).ok());
  const absl::Status status = serial.Step({});
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<double> got = serial.Get(graph.only(TensorRole::kLogits));
  ASSERT_EQ(got.size(), y->size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], (*y)[i], 2e-5 * std::max(1.0, std::abs(static_cast<double>((*y)[i]))))
        << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorValuesTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace partita
