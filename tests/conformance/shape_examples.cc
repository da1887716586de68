#include "tests/conformance/operator_examples.h"

namespace partita {

std::vector<OperatorExample> ShapeExamples() {
  auto one = [](std::string name, OpAttrs attrs, const Shape& x) {
    return OperatorExample{std::move(name), std::move(attrs), {Floats(x)}, {0}};
  };
  return {
      one("Flatten", Reshape{{2, -1}}, {2, 3, 2, 2}),
      one("FlattenBatchOfOne", Reshape{{1, 12}}, {1, 3, 2, 2}),
      one("Unflatten", Reshape{{3, 2, 2, 2}}, {3, 8}),
      one("ReshapeGeneral", Reshape{{4, 3}}, {2, 6}),
      one("ReshapeMovesOnes", Reshape{{2, 1, 1, 6}}, {1, 2, 2, 3, 1}),
      one("ReshapeToScalar", Reshape{{}}, {1, 1}),
      one("Transpose", Transpose{{1, 0}}, {3, 4}),
      one("TransposeRank4", Transpose{{0, 2, 3, 1}}, {2, 3, 2, 4}),
      {"ConcatTwo", Concat{.axis = 1}, {Floats({2, 3, 2}), Floats({2, 2, 2})}, {0, 1}},
      {"ConcatOuter",
       Concat{.axis = 0},
       {Floats({1, 3}), Floats({3, 3}), Floats({2, 3})},
       {0, 1, 2}},
      {"ConcatInner", Concat{.axis = 2}, {Floats({2, 2, 4}), Floats({2, 2, 1})}, {0, 1}},
      one("Crop", Crop{{1, 0, 2}, {3, 2, 5}}, {4, 2, 5}),
      one("PadBorder", Pad{{0, 1, 2, 0, 2, 1}, 0.5}, {2, 3, 2}),
      one("PadWide", Pad{{5, 0, 0, 4}, -1}, {2, 3}),
      one("PadCrops", Pad{{-1, 2, 1, -2}, 3}, {4, 5}),
  };
}

}  // namespace partita
