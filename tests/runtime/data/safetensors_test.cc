#include "runtime/train/data/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string FileOf(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string ErrorOf(const std::string& header, const std::string& data) {
  const auto file = SafetensorsFile::Parse(FileOf(header, data), "some.file");
  EXPECT_FALSE(file.ok()) << header;
  if (file.ok()) return "";
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("'some.file'"));
  return std::string(file.status().message());
}

TEST(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const TempFolder folder;
  const std::string path = folder / "a.safetensors";
  const std::vector<float> f = {1.5f, -2, 3, 4, 5, 6};
  const std::vector<double> d = {0.1};
  const std::vector<int64_t> i64 = {-1, std::numeric_limits<int64_t>::max()};
  const std::vector<int32_t> i32 = {7};
  const std::vector<uint8_t> u8 = {0, 128, 255};
  const std::vector<float> none;
  const TensorToWrite tensors[] = {
      MakeTensorToWrite<uint8_t>("bytes", {3}, u8),
      MakeTensorToWrite<float>("layer.0/weight \"q\" \n", {2, 3}, f),
      MakeTensorToWrite<float>("empty", {4, 0}, none),
      MakeTensorToWrite<double>("scalar", {}, d),
      MakeTensorToWrite<int64_t>("i64", {2, 1}, i64),
      MakeTensorToWrite<int32_t>("i32", {1}, i32),
  };
  ASSERT_TRUE(WriteSafetensors(path, tensors, {{"step", "12"}, {"who", "me"}}).ok());

  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 6u);
  EXPECT_THAT(file->metadata(), ElementsAre(Pair("step", "12"), Pair("who", "me")));
  EXPECT_THAT(*file->View<float>("layer.0/weight \"q\" \n"), ::testing::ElementsAreArray(f));
  EXPECT_THAT(*file->View<double>("scalar"), ElementsAre(0.1));
  EXPECT_THAT(*file->View<int64_t>("i64"), ::testing::ElementsAreArray(i64));
  EXPECT_THAT(*file->View<int32_t>("i32"), ElementsAre(7));
  EXPECT_THAT(*file->View<uint8_t>("bytes"), ElementsAre(0, 128, 255));
  EXPECT_TRUE(file->View<float>("empty")->empty());
  EXPECT_THAT(file->tensors().at("i64").shape, ElementsAre(2, 1));
  EXPECT_EQ(std::filesystem::file_size(path) % 8, 7u) << "header padded, seven bytes last";
}

// FIPS 180-4's example, so that sha256sum of a tensor's bytes agrees.
TEST(SafetensorsTest, TheChecksumOfATensorIsTheSha256OfItsBytes) {
  const TempFolder folder;
  const std::vector<uint8_t> abc = {'a', 'b', 'c'};
  const TensorToWrite tensors[] = {MakeTensorToWrite<uint8_t>("t", {3}, abc)};
  ASSERT_TRUE(WriteSafetensors(folder / "abc", tensors).ok());
  std::ifstream stream(folder / "abc", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_THAT(bytes, HasSubstr("\"partita.sha256/t\":\"ba7816bf8f01cfea414140de5dae2223"
                               "b00361a396177a9cb410ff61f20015ad\""));
  const auto file = SafetensorsFile::Open(folder / "abc");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->CheckChecksums(), absl::OkStatus());
}

TEST(SafetensorsTest, NumbersConvert) {
  const TempFolder folder;
  const std::vector<double> d = {0.1, 1e300};
  const std::vector<int64_t> i = {-3, 4};
  const std::vector<uint8_t> u = {200, 1};
  const TensorToWrite tensors[] = {MakeTensorToWrite<double>("d", {2}, d),
                                   MakeTensorToWrite<int64_t>("i", {2}, i),
                                   MakeTensorToWrite<uint8_t>("u", {2}, u)};
  ASSERT_TRUE(WriteSafetensors(folder / "n", tensors).ok());
  const auto file = SafetensorsFile::Open(folder / "n");
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(*file->Floats("d"), ElementsAre(0.1f, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(*file->Floats("i"), ElementsAre(-3.f, 4.f));
  EXPECT_THAT(*file->Floats("u"), ElementsAre(200.f, 1.f));
  EXPECT_THAT(*file->Integers("u"), ElementsAre(200, 1));
  EXPECT_FALSE(file->Integers("d").ok());
  float one = 0;
  EXPECT_TRUE(file->CopyFloats("i", 1, {&one, 1}).ok());
  EXPECT_EQ(one, 4);
  EXPECT_EQ(file->CopyFloats("i", 2, {&one, 1}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(file->CopyFloats("i", -1, {&one, 1}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(file->View<float>("d").status().message(),
            absl::StrCat("'", folder / "n", "': tensor 'd' is F64; F32 is wanted"));
}

// Tensor "t" of a file: its elements, given as they lie in it.
template <class T>
SafetensorsFile OfElements(const std::string& dtype, const std::vector<T>& elements) {
  const std::string header =
      absl::StrCat(R"({"t":{"dtype":")", dtype, R"(","shape":[)", elements.size(),
                   R"(],"data_offsets":[0,)", elements.size() * sizeof(T), "]}}");
  const std::string data(reinterpret_cast<const char*>(elements.data()),
                         elements.size() * sizeof(T));
  return SafetensorsFile::Parse(FileOf(header, data), "f").value();
}

TEST(SafetensorsTest, FloatsOfSixteenBitsConvert) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto half =
      OfElements<uint16_t>("F16", {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00});
  const std::vector<float> halves = *half.Floats("t");
  EXPECT_THAT(std::span(halves).first(7),
              ElementsAre(1, -2, 0x1p-24f, -0x3ffp-24f, 65504, infinity, -infinity));
  EXPECT_TRUE(std::isnan(halves[7]));
  const auto brain = OfElements<uint16_t>("BF16", {0x3f80, 0xc000, 0x0001, 0x4049, 0xff80, 0x7fc0});
  const std::vector<float> brains = *brain.Floats("t");
  EXPECT_THAT(std::span(brains).first(5), ElementsAre(1, -2, 0x1p-133f, 3.140625f, -infinity));
  EXPECT_TRUE(std::isnan(brains[5]));
  EXPECT_EQ(half.Integers("t").status().message(),
            "'f': tensor 't' is F16; an integer or BOOL is wanted");
}

template <class T>
void ExpectConverts(const std::string& dtype) {
  const T least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
  const auto file = OfElements<T>(dtype, {T{3}, least, most});
  EXPECT_THAT(*file.Floats("t"),
              ElementsAre(3, static_cast<float>(least), static_cast<float>(most)))
      << dtype;
  if (dtype == "U64") {
    EXPECT_EQ(file.Integers("t").status().message(), "'f': tensor 't' has numbers of 2^63 or more");
  } else {
    EXPECT_THAT(*file.Integers("t"), ElementsAre(3, static_cast<int64_t>(least), most)) << dtype;
  }
}

TEST(SafetensorsTest, EveryIntegerConverts) {
  ExpectConverts<int8_t>("I8");
  ExpectConverts<uint8_t>("U8");
  ExpectConverts<int16_t>("I16");
  ExpectConverts<uint16_t>("U16");
  ExpectConverts<int32_t>("I32");
  ExpectConverts<uint32_t>("U32");
  ExpectConverts<int64_t>("I64");
  ExpectConverts<uint64_t>("U64");
  EXPECT_THAT(*OfElements<uint64_t>("U64", {7}).Integers("t"), ElementsAre(7));
  const auto truth = OfElements<uint8_t>("BOOL", {0, 1, 255});
  EXPECT_THAT(*truth.Floats("t"), ElementsAre(0, 1, 1));
  EXPECT_THAT(*truth.Integers("t"), ElementsAre(0, 1, 1));
}

TEST(SafetensorsTest, AnAbsentTensorNamesThoseThatAreThere) {
  const auto file = SafetensorsFile::Parse(
      FileOf(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a"), "f");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Find("y").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file->Find("y").status().message(), "'f' has no tensor 'y'; it has 'x'");
}

TEST(SafetensorsTest, TensorsThatLieBadlyAreAlignedForTheirViews) {
  const float value = 2.5f;
  const std::string data = "z" + std::string(reinterpret_cast<const char*>(&value), 4);
  const auto file =
      SafetensorsFile::Parse(FileOf(R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                    R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                                    data),
                             "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(*file->View<float>("f"), ElementsAre(2.5f));
}

TEST(SafetensorsTest, OtherTypesAreReadAsBytesOnly) {
  const auto file =
      SafetensorsFile::Parse(FileOf(R"({"h":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[0,2]},)"
                                    R"("odd":{"dtype":"F4","shape":[3],"data_offsets":[2,4]}})",
                                    "abcd"),
                             "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Bytes("h")->size(), 2u);
  EXPECT_EQ(file->Bytes("odd")->size(), 2u);
  EXPECT_THAT(std::string(file->Floats("h").status().message()),
              HasSubstr("tensor 'h' is F8_E5M2; a float of 16 to 64 bits, an integer or BOOL is "
                        "wanted"));
  EXPECT_FALSE(file->Floats("odd").ok());
  EXPECT_FALSE(file->View<uint8_t>("odd").ok());
}

TEST(SafetensorsTest, AnUnknownTypeOfHugeShapeTakesNoMemory) {
  const auto file = SafetensorsFile::Parse(
      FileOf(R"({"t":{"dtype":"?","shape":[1000000000000],"data_offsets":[0,0]}})", ""), "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Floats("t").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file->Integers("t").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsTest, BadHeadersAreRefusedWithTheTensorsName) {
  EXPECT_THAT(ErrorOf("[]", ""), HasSubstr("array"));
  EXPECT_THAT(ErrorOf("7", ""), HasSubstr("number"));
  EXPECT_THAT(ErrorOf("", ""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("{", ""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("{}", "x"), HasSubstr("end at byte 0 of the data, which has 1"));
  EXPECT_THAT(ErrorOf(R"({"t":3})", ""), HasSubstr("'t'"));
  EXPECT_THAT(ErrorOf(R"({"t":{}})", ""), HasSubstr("'t': no member 'dtype'"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", ""),
              HasSubstr("two are wanted"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd"),
              HasSubstr("run backwards"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("takes 8 bytes, its data_offsets hold 4"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("negative"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("not an integer"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296,4],)"
                      R"("data_offsets":[0,4]}})",
                      "abcd"),
              HasSubstr("overflows"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abc"),
              HasSubstr("is the file cut off?"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", "a"),
              HasSubstr("unknown member 'x'"));
  EXPECT_THAT(ErrorOf(R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a"),
              HasSubstr("twice"));
  const std::string t = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(ErrorOf("{" + t + "," + t + "}", "a"), HasSubstr("twice"));
  const std::string u = R"("u":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  EXPECT_THAT(ErrorOf("{" + t + "," + u + "}", "ab"), HasSubstr("overlap"));
  const std::string v = R"("v":{"dtype":"U8","shape":[1],"data_offsets":[2,3]})";
  EXPECT_THAT(ErrorOf("{" + t + "," + v + "}", "abc"), HasSubstr("hole"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":1}})", ""), HasSubstr("number"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":"a"})", ""), HasSubstr("string"));
  EXPECT_THAT(ErrorOf("{\"t\xff\":1}", ""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf(std::string(1 << 20, '['), ""), HasSubstr("array"));
}

TEST(SafetensorsTest, LengthsThatLieAreRefused) {
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{100'000'001}, ~uint64_t{0}, uint64_t{1} << 63}) {
    const std::string bytes = std::string(reinterpret_cast<const char*>(&length), 8) + "{}";
    EXPECT_FALSE(SafetensorsFile::Parse(bytes, "f").ok()) << length;
  }
  for (size_t size = 0; size < 8; ++size) {
    EXPECT_FALSE(SafetensorsFile::Parse(std::string(size, '\0'), "f").ok());
  }
}

TEST(SafetensorsTest, FilesThatAreNotThereOrAreFoldersAreNamed) {
  const TempFolder folder;
  EXPECT_EQ(SafetensorsFile::Open(folder / "no").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(SafetensorsFile::Open(folder.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
  folder.Write("empty", "");
  EXPECT_THAT(std::string(SafetensorsFile::Open(folder / "empty").status().message()),
              HasSubstr("it has 0 bytes"));
}

TEST(SafetensorsTest, WhatCannotBeReadBackIsNotWritten) {
  const TempFolder folder;
  const std::vector<float> f = {1};
  const auto code = [&](std::vector<TensorToWrite> tensors) {
    const absl::Status status = WriteSafetensors(folder / "w", tensors);
    EXPECT_FALSE(std::filesystem::exists(folder / "w"));
    return status.code();
  };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code({MakeTensorToWrite<float>("a", {1}, f), MakeTensorToWrite<float>("a", {1}, f)}),
            kBad);
  EXPECT_EQ(code({MakeTensorToWrite<float>("a", {2}, f)}), kBad);
  EXPECT_EQ(code({MakeTensorToWrite<float>("a", {-1}, f)}), kBad);
  EXPECT_EQ(code({MakeTensorToWrite<float>("__metadata__", {1}, f)}), kBad);
  EXPECT_EQ(code({MakeTensorToWrite<float>("\xff", {1}, f)}), kBad);
  EXPECT_EQ(code({{"a", "F4", {1}, {}}}), kBad);
  EXPECT_EQ(WriteSafetensors(folder / "no/such/folder", {}).code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string good =
      FileOf(R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", std::string(24, 'd'));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(SafetensorsFile::Parse(good.substr(0, size), "f").ok()) << size;
  }
}

// The layout of the training references: x [steps, B, ...] beside y [steps, B], in the order and
// with the spacing of the format's own writer.
TEST(SafetensorsTest, AFileOfTheFormatsOwnWriterIsRead) {
  std::string header = R"({"y":{"dtype":"I64","shape":[2,2],"data_offsets":[0,32]},)"
                       R"("x":{"dtype":"F32","shape":[2,2,1],"data_offsets":[32,48]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const int64_t y[] = {3, 1, 4, 1};
  const float x[] = {.5f, 1, 2, 3};
  const auto file = SafetensorsFile::Parse(
      FileOf(header, std::string(reinterpret_cast<const char*>(y), sizeof(y)) +
                         std::string(reinterpret_cast<const char*>(x), sizeof(x))),
      "batch.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(*file->Integers("y"), ElementsAre(3, 1, 4, 1));
  EXPECT_THAT(*file->View<float>("x"), ElementsAre(.5f, 1, 2, 3));
}

TEST(SafetensorsTest, AFileThatIsCutOffWhileItIsReadIsNamed) {
  const TempFolder folder;
  const std::vector<float> values(50'000, 1.0f);
  const std::vector<int64_t> labels(50'000, 1);
  const TensorToWrite tensors[] = {MakeTensorToWrite<float>("x", {50'000}, values),
                                   MakeTensorToWrite<int64_t>("y", {50'000}, labels)};
  const std::string path = folder / "cut.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Check().ok());
  std::filesystem::resize_file(path, 10'000);
  std::vector<float> out(100);
  for (const absl::Status& status :
       {file->CopyFloats("x", 49'000, out), file->Floats("x").status(),
        file->Integers("y").status(), file->CheckChecksums(), file->Check()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + path + "' had "));
  }
}

}  // namespace
}  // namespace partita
