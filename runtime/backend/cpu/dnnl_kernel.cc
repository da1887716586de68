#include "runtime/backend/cpu/dnnl_kernel.h"

#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "graph/support/aligned.h"
#include "runtime/backend/cpu/cpu_kernels.h"

namespace partita {
namespace {

using dnnl_compat::Desc;
using Tag = dnnl::memory::format_tag;

dnnl::memory::dims DimsOf(const Shape& shape) { return {shape.begin(), shape.end()}; }

Tag DenseTag(size_t rank) {
  static constexpr Tag kTags[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde};
  return rank < std::size(kTags) ? kTags[rank] : Tag::undef;
}

}  // namespace

const dnnl::engine& CpuEngine() {
  static const dnnl::engine* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

Desc DescOf(const KernelTensor& tensor) {
  const size_t rank = tensor.type.shape.size();
  const Tag tag = tensor.format == Format::kNative && rank == 4 ? Tag::acdb : DenseTag(rank);
  return Desc(DimsOf(tensor.type.shape), dnnl::memory::data_type::f32, tag);
}

Desc AnyDescOf(const KernelTensor& tensor) {
  return Desc(DimsOf(tensor.type.shape), dnnl::memory::data_type::f32, Tag::any);
}

DnnlKernel::DnnlKernel(const KernelSignature& signature, Primitive primitive,
                       std::vector<DnnlArgument> arguments)
    : primitive_(std::move(primitive.primitive)),
      scratchpad_(std::move(primitive.scratchpad)),
      relu_elements_(HasOnlyEpilogue(signature) ? Volume(signature.outputs[0].type.shape) : 0) {
  int64_t offset = 0;
  for (DnnlArgument& argument : arguments) {
    Placed placed{std::move(argument), -1, {}};
    const DnnlArgument& a = placed.argument;
    if (a.user != a.wanted) {
      placed.offset = offset;
      offset += Aligned(static_cast<int64_t>(a.wanted.get_size()));
      const Desc& from = a.output ? a.wanted : a.user;
      const Desc& to = a.output ? a.user : a.wanted;
      placed.reorder =
          dnnl::reorder(dnnl::reorder::primitive_desc(CpuEngine(), from, CpuEngine(), to));
    }
    arguments_.push_back(std::move(placed));
  }
  scratchpad_offset_ = offset;
  scratch_bytes_ = offset + Aligned(static_cast<int64_t>(scratchpad_.get_size()));
}

absl::Status DnnlKernel::Run(const KernelArguments& given, void* scratch) const {
  try {
    dnnl::stream stream(CpuEngine());
    auto* base = static_cast<char*>(scratch);
    std::unordered_map<int, dnnl::memory> memories;
    auto data_of = [&given](const DnnlArgument& a) {
      return a.output ? given.outputs[a.tensor].data : given.inputs[a.tensor].data;
    };
    for (const Placed& placed : arguments_) {
      const DnnlArgument& a = placed.argument;
      if (placed.offset < 0) {
        memories.emplace(a.id, dnnl::memory(a.wanted, CpuEngine(), data_of(a)));
        continue;
      }
      dnnl::memory wanted(a.wanted, CpuEngine(), base + placed.offset);
      if (!a.output) {
        dnnl::memory user(a.user, CpuEngine(), data_of(a));
        placed.reorder.execute(stream, user, wanted);
      }
      memories.emplace(a.id, wanted);
    }
    memories.emplace(DNNL_ARG_SCRATCHPAD,
                     dnnl::memory(scratchpad_, CpuEngine(), base + scratchpad_offset_));
    primitive_.execute(stream, memories);
    for (const Placed& placed : arguments_) {
      const DnnlArgument& a = placed.argument;
      if (placed.offset < 0 || !a.output) continue;
      dnnl::memory user(a.user, CpuEngine(), data_of(a));
      placed.reorder.execute(stream, memories.at(a.id), user);
    }
    stream.wait();
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
  if (relu_elements_ > 0) {
    auto* y = static_cast<float*>(given.outputs[0].data);
    Rectify(y, y, relu_elements_);
  }
  return absl::OkStatus();
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace partita
