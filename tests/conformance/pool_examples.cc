#include "tests/conformance/operator_examples.h"

namespace partita {

std::vector<OperatorExample> PoolExamples() {
  auto pool = [](std::string name, Pool2d attrs, const Shape& x) {
    return OperatorExample{std::move(name), std::move(attrs), {Floats(x)}, {0}};
  };
  auto average = [&](std::string name, Pool2d attrs, const Shape& x) {
    attrs.function = "average";
    return pool(std::move(name), std::move(attrs), x);
  };
  auto mean = [](std::string name, const Shape& x, std::vector<int64_t> axes, bool keepdims) {
    return OperatorExample{
        std::move(name), *MakeReduceMean(x, std::move(axes), keepdims), {Floats(x)}, {0}};
  };
  return {
      pool("MaxPoolOverlapping", {.kernel = {3, 3}, .stride = {2, 2}}, {2, 2, 7, 5}),
      pool("MaxPoolTail", {.kernel = {2, 2}, .stride = {3, 2}}, {1, 2, 7, 5}),
      pool("MaxPoolPadded", {.kernel = {3, 2}, .stride = {1, 2}, .pads = {1, 1, 2, 0}},
           {2, 1, 5, 4}),
      pool("MaxPoolCeil", {.kernel = {3, 3}, .stride = {2, 2}, .ceil = true}, {1, 2, 6, 8}),
      pool("MaxPoolCeilPadded",
           {.kernel = {3, 3}, .stride = {2, 3}, .pads = {1, 1, 1, 1}, .ceil = true}, {1, 1, 6, 6}),
      pool("MaxPoolDilated",
           {.kernel = {2, 3}, .stride = {1, 1}, .dilation = {2, 2}, .pads = {1, 2, 1, 2}},
           {1, 2, 4, 4}),
      pool("MaxPoolEmptyWindows",
           {.kernel = {2, 2}, .stride = {1, 1}, .dilation = {2, 2}, .pads = {1, 1, 1, 1}},
           {1, 2, 1, 3}),
      average("AveragePool", {.kernel = {2, 2}, .stride = {2, 2}}, {2, 2, 6, 5}),
      average("AveragePoolExcludesPads", {.kernel = {3, 3}, .stride = {2, 1}, .pads = {1, 1, 1, 1}},
              {1, 2, 6, 4}),
      average("AveragePoolIncludesPads",
              {.kernel = {3, 3}, .stride = {2, 1}, .pads = {1, 2, 2, 1}, .counted = {1, 2, 2, 1}},
              {1, 2, 6, 4}),
      average("AveragePoolCeilIncludesPads",
              {.kernel = {3, 3},
               .stride = {2, 2},
               .pads = {1, 1, 1, 0},
               .counted = {1, 1, 1, 0},
               .ceil = true},
              {1, 1, 7, 6}),
      average("AveragePoolCeil", {.kernel = {2, 3}, .stride = {3, 2}, .ceil = true}, {1, 2, 7, 8}),
      average("AveragePoolDilated",
              {.kernel = {2, 2}, .stride = {1, 1}, .dilation = {2, 2}, .pads = {1, 1, 1, 1}},
              {1, 1, 2, 3}),
      mean("GlobalAverage", {2, 3, 4, 3}, {2, 3}, true),
      mean("MeanOfColumns", {3, 5}, {-1}, false),
      mean("MeanOfAll", {3, 2, 2}, {0, 1, 2}, false),
      mean("MeanOfBatch", {4, 3}, {0}, true),
  };
}

}  // namespace partita
