#include "runtime/backend/cuda/algorithm_search.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace partita {

std::string WorkOf(const ConvolutionShape& s) {
  constexpr const char* kPasses[] = {"forward", "data", "filter"};
  const auto text = [](const auto& numbers) { return absl::StrJoin(numbers, ","); };
  return absl::StrCat("convolution ", kPasses[static_cast<size_t>(s.pass)], " x=", text(s.x),
                      " w=", text(s.w), " y=", text(s.y), " pad=", text(s.pad),
                      " stride=", text(s.stride), " dilation=", text(s.dilation),
                      " groups=", s.groups, " bias=", s.bias, " relu=", s.relu, " ",
                      RowOf(s.precision).name, s.channels_last ? " channels_last" : "",
                      s.deterministic ? "" : " nondeterministic");
}

std::string WorkOf(const GemmShape& s) {
  const std::string batch = s.batch == 1 ? ""
                                         : absl::StrCat(" batch=", s.batch, " strides=", s.stride_a,
                                                        ",", s.stride_b, ",", s.stride_c);
  return absl::StrCat("product m=", s.m, " n=", s.n, " k=", s.k, " lda=", s.lda, " ldb=", s.ldb,
                      " ldc=", s.ldc, " transpose=", s.transpose_a, ",", s.transpose_b,
                      " bias=", s.bias, batch, " ", RowOf(s.precision).name,
                      s.deterministic ? "" : " nondeterministic");
}

std::string KernelWorkOf(const KernelSignature& signature) {
  return absl::StrCat("kernel ", RowOf(signature.compute_type).name, " ",
                      ToString(InPrecision(signature, Precision::kFloat32)));
}

std::optional<int64_t> NumberNamed(absl::string_view name, absl::string_view text, int64_t most) {
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    int64_t number = 0;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (parts.first != name || !absl::SimpleAtoi(parts.second, &number)) continue;
    if (number >= 0 && number <= most) return number;
  }
  return std::nullopt;
}

}  // namespace partita
