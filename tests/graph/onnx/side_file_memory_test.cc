// What reading weights from side files takes of memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/model/model_io.h"
#include "graph/onnx/import.h"
#include "tests/graph/onnx/onnx_builder.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMega = int64_t{1} << 20;
constexpr int64_t kTera = int64_t{1} << 40;

// Bytes that /proc/self/status has for a word.
int64_t StatusOf(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kilobytes = 0;
  while (status >> word && word != key) continue;
  status >> kilobytes;
  return kilobytes << 10;
}

// The largest resident memory since this object was made, above what was resident then.
class Peak {
 public:
  Peak() {
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak starts anew
    before_ = StatusOf("VmRSS:");
  }
  int64_t bytes() const { return StatusOf("VmHWM:") - before_; }

 private:
  int64_t before_;
};

class SideFileMemoryTest : public testing::Test {
 protected:
  SideFileMemoryTest() {
    folder_ = std::filesystem::temp_directory_path() /
              ("partita_side_file_memory_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~SideFileMemoryTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // A file that takes no space; false where the file system has none so large.
  bool MakeSparse(const std::string& name, int64_t bytes) {
    std::ofstream(Path(name)) << "";
    std::error_code error;
    std::filesystem::resize_file(Path(name), static_cast<uintmax_t>(bytes), error);
    return !error;
  }

  absl::StatusOr<ImportedModel> Import(const OnnxBuilder& model,
                                       WeightValues values = WeightValues::kIfPresent) {
    std::ofstream(Path("net.onnx"), std::ios::binary) << model.bytes();
    return ImportOnnx(Path("net.onnx"), {.values = values});
  }

  // x [4, rows] times one weight [rows, columns] of the side file.
  static OnnxBuilder Linear(int64_t rows, int64_t columns, int type = 1) {
    OnnxBuilder model({4, rows});
    AddWeight(model, "w", rows, columns, type);
    model.Node("MatMul", {"x", "w"}, {"y"});
    return model;
  }
  static void AddWeight(OnnxBuilder& model, const std::string& name, int64_t rows, int64_t columns,
                        int type = 1) {
    onnx::TensorProto& weight = model.Weight(name, {0});
    weight.clear_dims();
    weight.add_dims(rows);
    weight.add_dims(columns);
    weight.set_data_type(type);
    OnnxBuilder::MakeExternal(weight, "w.bin", 0, rows * columns * (type == 11 ? 8 : 4));
  }

  std::filesystem::path folder_;
};

TEST_F(SideFileMemoryTest, ABadModelTakesNoneWhateverItSays) {
  if (!MakeSparse("w.bin", 4 * kTera)) GTEST_SKIP() << "no sparse file of 4 TB here";
  // 200 weights of 64 MB that fit, and one that does not.
  OnnxBuilder model({4, 4096});
  std::string last = "x";
  for (int i = 0; i < 200; ++i) {
    AddWeight(model, absl::StrCat("w", i), 4096, 4096);
    const std::string next = absl::StrCat("h", i);
    model.Node("MatMul", {last, absl::StrCat("w", i)}, {next});
    last = next;
  }
  AddWeight(model, "bad", 4097, 4096);
  model.Node("MatMul", {last, "bad"}, {"y"}, "bad_node");
  const Peak peak;
  EXPECT_THAT(Import(model).status().message(), HasSubstr("bad_node"));
  EXPECT_LT(peak.bytes(), 32 * kMega);
}

TEST_F(SideFileMemoryTest, WhatDoesNotFitIsRefusedBeforeItIsTaken) {
  if (!MakeSparse("w.bin", 4 * kTera)) GTEST_SKIP() << "no sparse file of 4 TB here";
  const OnnxBuilder model = Linear(kMega, kMega);
  const Peak peak;
  const absl::Status status = Import(model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr("net.onnx"), HasSubstr("4398046511104 bytes")));
  // Where values are of no use, the model is good.
  EXPECT_TRUE(Import(model, WeightValues::kSkipped).ok());
  EXPECT_LT(peak.bytes(), 32 * kMega);
}

TEST_F(SideFileMemoryTest, ATextModelWhoseWeightsDoNotFitIsRefusedBeforeTheyAreTaken) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[1048576,1048576],)"
                             R"("data_offsets":[0,4398046511104]}})";
  const uint64_t length = header.size();
  if (!MakeSparse("w.safetensors", 4 * kTera + 8 + static_cast<int64_t>(length))) {
    GTEST_SKIP() << "no sparse file of 4 TB here";
  }
  std::fstream side(Path("w.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
  side.write(reinterpret_cast<const char*>(&length), sizeof(length));
  side << header << std::flush;
  std::ofstream(Path("net.textproto")) << R"(
    format_version: 2 name: "net" logits: "y"
    weights_file: "w.safetensors" weights_hash: "0000000000000000"
    item { input { name: "x" shape: [4, 1048576] } }
    item { weight { name: "w" shape: [1048576, 1048576] stored: true } }
    item { operator { name: "y" kind: "matmul" input: "x" input: "w" } })";
  const Peak peak;
  const absl::Status status = LoadModelFile(Path("net.textproto")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(LoadModelFile(Path("net.textproto"), WeightValues::kSkipped).ok());
  EXPECT_LT(peak.bytes(), 32 * kMega);
}

TEST_F(SideFileMemoryTest, ValuesAreReadStraightIntoPlace) {
  constexpr int64_t kBytes = 64 * kMega;
  for (const auto& [type, width] : {std::pair(1, 4), std::pair(11, 8)}) {
    ASSERT_TRUE(MakeSparse("w.bin", kBytes / 4 * width));
    const OnnxBuilder model = Linear(4096, 4096, type);
    const Peak peak;
    const auto imported = Import(model);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(imported->graph.weights()[0].values->size() * sizeof(float),
              static_cast<size_t>(kBytes));
    EXPECT_GT(peak.bytes(), kBytes / 2);
    EXPECT_LT(peak.bytes(), kBytes + kBytes / 4) << "of type " << type;
    if (type == 1) {
      ASSERT_TRUE(SaveModel(imported->graph, Path("net.textproto")).ok());
    }
  }
  const Peak peak;
  const auto loaded = LoadModelFile(Path("net.textproto"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_LT(peak.bytes(), kBytes + kBytes / 4);
}

}  // namespace
}  // namespace partita
