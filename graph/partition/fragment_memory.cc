#include "graph/partition/fragment_memory.h"

#include "graph/support/heap_bytes.h"

namespace partita {
namespace {

int64_t BytesOfRules(const FormatRules& rules) {
  return HeapBytesOf(rules.equal) + HeapBytesOf(rules.dense);
}

int64_t BytesOfViews(const std::vector<TensorView>& views) {
  int64_t bytes = HeapBytesOf(views);
  for (const TensorView& view : views) bytes += HeapBytesOf(view.pads);
  return bytes;
}

}  // namespace

int64_t HeapBytesOf(const Fragment& fragment) {
  return fragment.graph.HeapBytes() + HeapBytesOf(fragment.edges);
}

int64_t HeapBytesOf(const OperatorFragment& fragment) {
  int64_t bytes = HeapBytesOf(static_cast<const Fragment&>(fragment)) +
                  HeapBytesOf(fragment.reads) + HeapBytesOf(fragment.kept) +
                  HeapBytesOf(fragment.results) + HeapBytesOf(fragment.reading_task) +
                  HeapBytesOf(fragment.formats) + HeapBytesOf(fragment.devices);
  for (const auto& results : fragment.results) bytes += HeapBytesOf(results);
  for (const FormatRules& rules : fragment.formats) bytes += BytesOfRules(rules);
  return bytes;
}

int64_t HeapBytesOf(const TensorFragment& fragment) {
  return HeapBytesOf(static_cast<const Fragment&>(fragment)) + BytesOfRules(fragment.formats) +
         HeapBytesOf(fragment.staging);
}

int64_t HeapBytesOf(const BucketFragment& fragment) {
  return HeapBytesOf(static_cast<const Fragment&>(fragment)) + HeapBytesOf(fragment.members) +
         HeapBytesOf(fragment.sources);
}

int64_t HeapBytesOf(const TensorFragments& fragments) {
  return HeapBytesOf(fragments.groups) + HeapBytesOf(fragments.read_begin) +
         HeapBytesOf(fragments.reads) + HeapBytesOf(fragments.lone_reads);
}

int64_t HeapBytesOf(const std::vector<std::vector<Part>>& parts) {
  int64_t bytes = HeapBytesOfAllocation(parts.capacity() * sizeof(parts[0]));
  for (const auto& list : parts) {
    bytes += HeapBytesOf(list);
    for (const Part& part : list) {
      bytes += HeapBytesOf(part.view.blocks) + BytesOfViews(part.view.operands) +
               BytesOfViews(part.view.results);
    }
  }
  return bytes;
}

int64_t HeapBytesOf(const WeightLayouts& layouts) {
  return HeapBytesOf(layouts.parameter) + HeapBytesOf(layouts.update);
}

}  // namespace partita
