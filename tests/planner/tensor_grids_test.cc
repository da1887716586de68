// What tensor parallelism over lines, grids and cubes of devices moves, against formulas on paper.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "graph/training/training_graph.h"
#include "planner/expert/expert_strategies.h"
#include "tests/planner/step_volume.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using testing::HasSubstr;

// Rows, and the narrow and the wide features of blocks of two products, as in a transformer's MLP.
struct BlockSizes {
  int64_t rows, narrow, wide;
};

Graph Blocks(const BlockSizes& s, int blocks) {
  ModelWriter m("blocks", DType::kFloat32);
  TensorId x = m.Input({s.rows, s.narrow});
  for (int k = 0; k < blocks; ++k) {
    const std::string name = "block" + std::to_string(k);
    x = m.Relu(name + ".relu", m.Linear(name + ".up", x, s.wide));
    x = m.Linear(name + ".down", x, s.narrow);
  }
  return Ok(BuildTrainingGraph(m.Finish(x), {}));
}

// Bytes of a training step for one block among others: what the third of three adds.
int64_t BytesOfBlock(const std::string& expert, const BlockSizes& s, int devices) {
  int64_t bytes[2];
  for (int blocks : {2, 3}) {
    const Graph graph = Blocks(s, blocks);
    const Strategy strategy = Ok(Ok(ExpertNamed(expert))(graph, VirtualCpuDevices(devices)));
    bytes[blocks - 2] = BytesReceived(graph, strategy, devices);
  }
  return bytes[1] - bytes[0];
}

// Of a block, in bytes: x, what lies between the products, and both weights without the biases.
struct BlockBytes {
  explicit BlockBytes(const BlockSizes& s)
      : x(4 * s.rows * s.narrow), h(4 * s.rows * s.wide), w(4 * 2 * s.narrow * s.wide) {}
  int64_t x, h, w;
};

// 1-D: x is summed by all-reduce after `down`, its gradient before `up`.
int64_t Bytes1d(const BlockBytes& b, int64_t p) { return 2 * 2 * (p - 1) * b.x; }
// q x q: x and h are gathered along the columns' axis, their gradients scattered; weights are
// gathered along the rows' axis, forward and backward, and their gradients scattered.
int64_t Bytes2d(const BlockBytes& b, int64_t q) { return (q - 1) * (2 * b.x + 2 * b.h + 3 * b.w); }
// d layers of it: every layer gathers weights, and their gradients are summed over the layers, too.
int64_t Bytes25d(const BlockBytes& b, int64_t q, int64_t d) {
  return (q - 1) * (2 * b.x + 2 * b.h + 2 * d * b.w) + (q * d - 1) * b.w + (d - 1) * b.w;
}
// q x q x q: `up` gathers x, scatters h; `down` gathers h, scatters x; the gradients the other way;
// weights as in 2-D.
int64_t Bytes3d(const BlockBytes& b, int64_t q) { return (q - 1) * (4 * b.x + 4 * b.h + 3 * b.w); }

TEST(TensorGridsTest, MoveTheBytesOfTheFormulas) {
  // Biases, which the formulas leave out, are exchanged as well.
  const auto expect = [](int64_t bytes, int64_t formula) {
    EXPECT_GE(bytes, formula);
    EXPECT_LE(static_cast<double>(bytes), 1.02 * static_cast<double>(formula));
  };
  for (const BlockSizes& s : {BlockSizes{192, 128, 512}, BlockSizes{256, 512, 512}}) {
    const BlockBytes b(s);
    expect(BytesOfBlock("megatron", s, 4), Bytes1d(b, 4));
    expect(BytesOfBlock("megatron", s, 8), Bytes1d(b, 8));
    expect(BytesOfBlock("tensor_2d", s, 4), Bytes2d(b, 2));
    expect(BytesOfBlock("tensor_2d", s, 16), Bytes2d(b, 4));
    expect(BytesOfBlock("tensor_25d", s, 8), Bytes25d(b, 2, 2));
    expect(BytesOfBlock("tensor_3d", s, 8), Bytes3d(b, 2));
  }
}

TEST(TensorGridsTest, ACubeOf64DevicesMovesTheLeast) {
  const BlockSizes s{6144, 4096, 16384};
  const auto gigabytes = [&](const char* expert) {
    return static_cast<double>(BytesOfBlock(expert, s, 64)) / 1e9;
  };
  const double line = gigabytes("megatron"), square = gigabytes("tensor_2d"),
               layers = gigabytes("tensor_25d"), cube = gigabytes("tensor_3d");
  std::printf(
      "6144 x 4096 x 16384 on 64 devices, GB a block and step: 1-D %.2f, 2-D %.2f, 2.5-D %.2f, "
      "3-D %.2f; 3-D moves %.2f times less than 1-D, %.2f times less than 2-D\n",
      line, square, layers, cube, line / cube, square / cube);
  EXPECT_NEAR(line / cube, 2.33, 0.02);
  EXPECT_NEAR(square / cube, 1.69, 0.02);
}

TEST(TensorGridsTest, DevicesThatFormNoGridAreDeclined) {
  const Graph graph = Blocks({64, 64, 64}, 1);
  const auto declined = [&](const char* expert, int devices) {
    const auto strategy = Ok(ExpertNamed(expert))(graph, VirtualCpuDevices(devices));
    EXPECT_EQ(strategy.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(strategy.status().message());
  };
  EXPECT_THAT(declined("tensor_2d", 7), HasSubstr("no grid of two axes"));
  EXPECT_THAT(declined("tensor_25d", 16), HasSubstr("no grid of q x q in at most q layers"));
  EXPECT_THAT(declined("tensor_3d", 16), HasSubstr("no grid of three equal axes"));
}

}  // namespace
}  // namespace partita
