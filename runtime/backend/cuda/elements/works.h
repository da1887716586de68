#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include "runtime/backend/cuda/elements/block_elements.h"
#include "runtime/backend/cuda/elements/conversion_elements.h"
#include "runtime/backend/cuda/elements/dropout_elements.h"
#include "runtime/backend/cuda/elements/elementwise_elements.h"
#include "runtime/backend/cuda/elements/embedding_elements.h"
#include "runtime/backend/cuda/elements/layer_norm_elements.h"
#include "runtime/backend/cuda/elements/lrn_elements.h"
#include "runtime/backend/cuda/elements/lstm_elements.h"
#include "runtime/backend/cuda/elements/max_pool_planes.h"
#include "runtime/backend/cuda/elements/norm_elements.h"
#include "runtime/backend/cuda/elements/pool_elements.h"
#include "runtime/backend/cuda/elements/read_first.h"
#include "runtime/backend/cuda/elements/reductions.h"
#include "runtime/backend/cuda/elements/shape_elements.h"
#include "runtime/backend/cuda/elements/softmax_elements.h"
#include "runtime/backend/cuda/elements/unary_elements.h"
#include "runtime/backend/cuda/elements/update_elements.h"

namespace partita {

// THE tables of what the cuda backend's own kernels compute. To add one: write its functor, add it
// here, and have plan/ make one for its operator; the launchers and the host tests need nothing.
// clang-format off: one name per line
using ElementFunctor = std::variant<
    FillElement,
    ReluElement,
    ReluGradientElement,
    UnaryElement,
    UnaryGradientElement,
    EmbeddingElement,
    EqualIndexElement,
    EmbeddingGradientElement,
    LstmGatesElement,
    LstmGatesGradientElement,
    LstmCellGradientElement,
    LayerNormElement,
    LayerNormGradientElement,
    ScaleElement,
    BinaryInOrderElement,
    BinaryElement,
    BiasElement,
    CopyElement,
    GatherElement,
    ScatterElement,
    BorderElement,
    MaxPoolElement,
    MaxPoolPlaceElement,
    MaxPoolGradientElement,
    AveragePoolElement,
    AveragePoolGradientElement,
    LrnElement,
    LrnShareElement,
    LrnGradientElement,
    DropoutElement,
    DropoutRunElement,
    ChannelMapElement,
    NormalizeElement,
    ChannelGradientElement,
    NormalizeGradientElement,
    SoftmaxElement,
    SoftmaxGradientElement,
    LogSoftmaxElement,
    LogSoftmaxGradientElement,
    CrossEntropyGradientElement,
    SgdElement,
    AdamElement,
    RunningElement,
    ProductFactorsElement,
    ConversionElement,
    NarrowTransposeElement,
    ToBlocksElement,
    FromBlocksElement>;
// clang-format on

// clang-format off: one name per line
using ReductionFunctor = std::variant<
    SumReduction,
    ChannelSumReduction,
    RowMaxReduction,
    SumExpReduction,
    CrossEntropyReduction,
    CountCorrectReduction,
    MomentsReduction,
    GradMomentsReduction,
    RowStatisticsReduction,
    LayerNormRowReduction,
    LayerNormGammaReduction,
    ScaleReduction>;
// clang-format on

// functor(i) for 0 <= i < count, in any order.
struct ElementWork {
  static constexpr int kBlockThreads = 256;
  static constexpr int kElements = 4;           // that a thread takes at once, where it reads first
  static constexpr int kVectors = 2;            // of four elements, in the kernels of conversions
  static constexpr int64_t kMostBlocks = 4096;  // beyond it, threads take several elements
  static constexpr int64_t kMostConversionBlocks = 1 << 20;
  ElementFunctor functor;
  int64_t count = 0;
  int64_t places = 0;   // that its indices have to reach, at least `count`: see WithIndex
  uint32_t blocks = 0;  // of threads, of the launch

  // `places`: what the functor's indices reach where that is more than `count`.
  static ElementWork Of(int64_t count, const ElementFunctor& functor, int64_t places = 0) {
    ElementWork work;
    work.functor = functor;
    work.count = count;
    work.places = places > count ? places : count;
    work.blocks = std::visit([&](const auto& f) { return BlocksOf(f, count); }, functor);
    return work;
  }
  // Calls visit with references to its pointers (read_first.h).
  template <class Visit>
  void VisitPointers(Visit&& visit) {
    std::visit([&](auto& f) { VisitPointersOf(f, visit); }, functor);
  }

 private:
  template <class F>
  static uint32_t BlocksOf(const F& functor, int64_t count) {
    if constexpr (std::is_same_v<F, ConversionElement>) {
      constexpr int64_t kOfBlock = int64_t{kBlockThreads} * kVectors * 4;
      if (functor.keeps_order()) return BlocksFor(count, kOfBlock, kMostConversionBlocks);
    }
    if constexpr (std::is_same_v<F, ToBlocksElement>) {
      constexpr int64_t kOfBlock = int64_t{kBlockThreads} * kVectors;
      if (functor.is_usual()) return BlocksFor(count, kOfBlock, kMostConversionBlocks);
    }
    constexpr int64_t kOfThread = ReadsFirst<F>::value ? kElements : 1;
    return BlocksFor(count, kBlockThreads * kOfThread, kMostBlocks);
  }
};

// Division of a reduction over the threads of a block. A block has kBlockThreads threads: `lanes`
// for the terms of each of kBlockThreads / lanes rows. The terms of a row are cut into `chunks`
// runs; where there are several, each leaves its partial result in `partials` (rows * chunks of
// them), and a second pass merges them in order.
struct ReductionShape {
  static constexpr int kBlockThreads = 256;
  static constexpr int kMergeLanes = 32;  // lanes of the second pass, whose terms are the chunks
  int64_t rows = 0, terms = 0;
  int lanes = kBlockThreads;  // a power of 2
  int64_t chunks = 1;
  // Neighbouring threads take neighbouring rows, which lie next to each other in memory; otherwise
  // neighbouring terms.
  bool rows_are_neighbours = false;
  static constexpr int64_t kMostGroups = 1 << 20;
  uint32_t groups = 1;  // blocks of each chunk

  // Places that its indices have to reach (see WithIndex).
  int64_t places() const { return rows * terms; }
  PARTITA_HOST_DEVICE int64_t ChunkBegin(int64_t chunk) const { return chunk * terms / chunks; }
};

struct ReductionWork {
  ReductionFunctor functor;
  ReductionShape shape;
  ReductionShape merge;  // the second pass, where there are several chunks
  void* partials = nullptr;
  template <class Visit>
  void VisitPointers(Visit&& visit) {
    std::visit([&](auto& f) { f.VisitPointers(visit); }, functor);
    visit(partials);
  }
};

}  // namespace partita
