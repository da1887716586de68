#include "graph/onnx/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/onnx/constant.h"
#include "graph/support/file.h"

namespace partita::onnx {
namespace {

using ::testing::HasSubstr;

TEST(DecodeTest, ReadsAModelOfPyTorch) {
  const auto bytes = ReadFile(PARTITA_TEST_DATA "/models/alexnet.onnx", kMaxModelBytes);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto model = DecodeModel(*bytes, "alexnet.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->graph().node_size(), 27);
  EXPECT_EQ((*model)->graph().initializer_size(), 16);
  EXPECT_EQ((*model)->opset_import(0).version(), 18);
}

TEST(DecodeTest, SaysWhereATruncatedFileEnds) {
  const auto bytes = ReadFile(PARTITA_TEST_DATA "/models/alexnet.onnx", kMaxModelBytes);
  ASSERT_TRUE(bytes.ok());
  const auto model = DecodeModel(bytes->substr(0, bytes->size() / 2), "half.onnx");
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(), HasSubstr("'half.onnx'"));
  EXPECT_THAT(model.status().message(), HasSubstr("graph"));
  EXPECT_THAT(model.status().message(), HasSubstr("truncated"));
}

TEST(DecodeTest, RefusesTextAndEmptyFiles) {
  EXPECT_FALSE(DecodeModel("", "empty").ok());
  EXPECT_FALSE(DecodeModel("# a model? no, a shopping list\n", "text").ok());
}

TEST(DecodeTest, BoundsWhatASmallFileCanGrowTo) {
  // Empty nodes: two bytes in the file, hundreds in memory.
  std::string graph;
  for (int i = 0; i < 2'000'000; ++i) graph += std::string("\x0a\x00", 2);
  std::string bytes = "\x3a";
  for (size_t n = graph.size(); n > 0; n >>= 7) {
    bytes += static_cast<char>((n & 0x7f) | (n >> 7 ? 0x80 : 0));
  }
  const auto model = DecodeModel(bytes + graph, "bomb");
  EXPECT_THAT(model.status().message(), HasSubstr("far more parts"));
}

TensorProto FloatTensor(std::initializer_list<int64_t> dims) {
  TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(1);
  for (int64_t dim : dims) tensor.add_dims(dim);
  return tensor;
}

TEST(DescribeTensorTest, ComparesShapeAndDataBeforeAllocating) {
  TensorProto tensor = FloatTensor({1 << 30, 1 << 9});
  tensor.set_raw_data("1234");
  EXPECT_THAT(DescribeTensor(tensor).status().message(), HasSubstr("4 bytes of data"));
  tensor = FloatTensor({1 << 30, 1 << 30});
  EXPECT_THAT(DescribeTensor(tensor).status().message(), HasSubstr("more than 2^40"));
  tensor = FloatTensor({-3});
  EXPECT_THAT(DescribeTensor(tensor).status().message(), HasSubstr("extent -3"));
  tensor = FloatTensor({1});
  tensor.set_data_type(77);
  EXPECT_THAT(DescribeTensor(tensor).status().message(), HasSubstr("type 77 is unknown"));
}

TEST(DescribeTensorTest, KeepsSideFilesInTheModelsFolder) {
  for (const char* location : {"../weights.bin", "/etc/passwd", "", "a/../../b"}) {
    TensorProto tensor = FloatTensor({2});
    tensor.set_data_location(1);
    auto* entry = tensor.add_external_data();
    entry->set_key("location");
    entry->set_value(location);
    EXPECT_THAT(DescribeTensor(tensor).status().message(), HasSubstr("inside the model's folder"))
        << location;
  }
}

TEST(ReadConstantTest, ReadsAllWidthsAndForms) {
  TensorProto tensor;
  tensor.add_dims(2);
  tensor.set_data_type(7);
  tensor.add_int64_data(-5);
  tensor.add_int64_data(int64_t{1} << 60);
  auto source = DescribeTensor(tensor);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(ReadConstant(tensor, *source)->ints, (std::vector<int64_t>{-5, int64_t{1} << 60}));

  TensorProto half;
  half.set_data_type(10);
  half.set_raw_data(std::string("\x00\xc0", 2));  // -2 as float16
  source = DescribeTensor(half);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(ReadConstant(half, *source)->reals, (std::vector<double>{-2}));
}

}  // namespace
}  // namespace partita::onnx
