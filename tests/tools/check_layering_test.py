#!/usr/bin/env python3
"""Each rule of tools/check_layering.py finds its planted violation and lets the right form pass."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_layering  # noqa: E402


def run(check, files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(check_layering.violations(root, [check]))


class LayeringTest(unittest.TestCase):
    def assert_includes(self, name, header, forbidden):
        found = run("layering", {name: f'#pragma once\n\n#include "{header}"\n'})
        if forbidden:
            self.assertEqual(len(found), 1, (name, header, found))
            self.assertTrue(found[0].startswith(f"{name}:3: "), found)
        else:
            self.assertEqual(found, [], (name, header))

    def test_names_every_include_against_the_arrows(self):
        for name, header in [
                ("graph/support/a.h", "graph/box.h"), ("graph/graph.h", "cost_model/machine.h"),
                ("graph/graph.h", "graph/task/task_graph.h"), ("graph/ops/conv2d.h", "graph/graph.h"),
                ("graph/box.h", "graph/ops/ops.h"), ("graph/collective/ring.h", "graph/graph.h"),
                ("graph/parallel/plan.h", "graph/task/task_graph.h"), ("graph/graph.h", "graph/training/training_graph.h"),
                ("graph/task/task_graph.h", "graph/partition/partition.h"),
                ("graph/partition/partition.h", "graph/verify/step_verifier.h"),
                ("graph/verify/step_verifier.h", "graph/partition/exchange.h"),
                ("graph/training/a.h", "graph/model/model_io.h"), ("cost_model/a.h", "planner/planner.h"),
                ("cost_model/a.h", "runtime/backend/backend.h"), ("planner/a.h", "runtime/backend/backend.h"),
                ("runtime/train/a.h", "planner/planner.h"), ("runtime/train/a.h", "cost_model/machine.h"),
                ("runtime/lowering/a.h", "runtime/backend/backend.h"),
                ("runtime/backend/backend.h", "runtime/comm/communicator.h"),
                ("runtime/backend/cpu/a.h", "runtime/backend/reference/reference_backend.h"),
                ("runtime/comm/inproc/a.h", "runtime/backend/cpu/device.h"),
                ("runtime/comm/inproc/a.h", "runtime/comm/mpi/a.h"),
                ("runtime/executor/a.h", "runtime/train/trainer.h"), ("planner/a.h", "tools/workflow/verify.h"),
                ("tools/workflow/a.h", "tools/cli/verb.h"), ("runtime/support/a.h", "runtime/train/trainer.h"),
                ("graph/a.h", "tests/testing/random_graph.h")]:
            self.assert_includes(name, header, forbidden=True)

    def test_lets_the_arrows_pass(self):
        for name, header in [
                ("graph/partition/partition.h", "graph/parallel/strategy.h"), ("graph/task/a.h", "graph/collective/ring.h"),
                ("graph/verify/plan_verifier.cc", "graph/partition/planned_step.h"),
                ("graph/model/a.h", "graph/onnx/import.h"), ("graph/onnx/a.h", "graph/model/model_limits.h"),
                ("graph/ops/conv2d.h", "graph/sharding_rule.h"), ("graph/parallel/plan.h", "graph/graph.h"),
                ("planner/a.h", "cost_model/machine.h"), ("runtime/executor/a.h", "runtime/comm/communicator.h"),
                ("runtime/comm/inproc/a.h", "runtime/backend/backend.h"),
                ("runtime/backend/cpu/a.h", "runtime/backend/backend.h"),
                ("runtime/backend/cpu/a.h", "runtime/backend/host/host_device.h"), ("tools/workflow/a.h", "planner/planner.h"),
                ("tests/planner/a.cc", "runtime/train/trainer.h"), ("graph/a.cc", "proto/model.pb.h")]:
            self.assert_includes(name, header, forbidden=False)

    def test_wants_the_standard_headers_of_names_that_a_header_uses(self):
        own = {"graph/b.h": "#pragma once\n#include <span>\n", "graph/c.h": '#pragma once\n#include "graph/b.h"\n'}
        for text in ["std::span<int> a();", "size_t a();", "void a(std::function<int()>);"]:
            found = run("standard", own | {"graph/a.h": f"#pragma once\n\n{text}\n"})
            self.assertEqual(len(found), 1, (text, found))
            self.assertTrue(found[0].startswith("graph/a.h:3: "), found)
        for text in ["#include <span>\nstd::span<int> a();", '#include "graph/c.h"\nstd::span<int> a();',
                     "// std::span", "#include <cstddef>\nsize_t a();", "#include <string>\nusing std::string_view;"]:
            self.assertEqual(run("standard", own | {"graph/a.h": f"#pragma once\n{text}\n"}), [], text)
        self.assertEqual(run("standard", {"graph/a.cc": "std::span<int> a();\n"}), [])

    def test_keeps_vendor_headers_locked_in(self):
        for name, header in [("graph/a.h", "dnnl.hpp"), ("runtime/backend/cuda/a.h", "oneapi/dnnl/dnnl.hpp"),
                             ("runtime/backend/cpu/a.h", "cuda_runtime.h"), ("tests/a.cc", "mpi.h"),
                             ("runtime/backend/cuda/a.h", "nccl.h")]:
            found = run("vendor", {name: f"#include <{header}>\n"})
            self.assertEqual(len(found), 1, (name, header))
            self.assertTrue(found[0].startswith(f"{name}:1: "))
        self.assertEqual(run("vendor", {"runtime/backend/cpu/a.h": "#include <dnnl.hpp>\n",
                                        "tests/testing/nccl_on_host/a.h": "#include <nccl.h>\n",
                                        "runtime/comm/mpi/a.cc": "#include <mpi.h>\n"}), [])

    def test_wants_the_own_header_first_and_pragma_once(self):
        found = run("headers", {"graph/a.h": "#pragma once\n", "graph/a.cc": '#include <map>\n#include "graph/a.h"\n'})
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("graph/a.cc:1: "))
        self.assertEqual(len(run("headers", {"graph/a.h": "int x;\n"})), 1)
        self.assertEqual(run("headers", {"graph/a.h": "#pragma once\n", "graph/a.cc": '#include "graph/a.h"\n'}), [])

    def test_knows_the_top_level(self):
        self.assertEqual(run("entries", {"notes.txt": "", "graph/a.h": "", ".ci/run": ""}),
                         ["notes.txt:1: not one of the agreed top-level entries"])


class OperatorsTest(unittest.TestCase):
    TABLE = {"graph/ops/ops.h": "// The table.\nusing OpAttrs = OneOf<Conv2d, Relu,\n          // Others.\n          Pad>;\n"}

    def found(self, name, line):
        return run("operators", {**self.TABLE, name: f"// A comment.\n{line}\n"})

    def test_finds_every_way_to_ask_which_operator_it_is(self):
        for line in ["if (std::holds_alternative<Relu>(op.attrs)) return;", "auto* p = std::get_if<Pad>(&attrs);",
                     "auto& p = std::get<Conv2d>(attrs);", "if constexpr (std::is_same_v<Row, Relu>) {}",
                     "bool b = NameOf(op.attrs) == \"relu\";", "x = Pad::kName;", "int F(const Conv2d& conv);",
                     "switch (op.attrs.index()) {}"]:
            found = self.found("planner/expert/a.cc", line)
            self.assertEqual(len(found), 1, (line, found))
            self.assertTrue(found[0].startswith("planner/expert/a.cc:2: "), found)

    def test_lets_facts_constructors_kernels_and_others_types_pass(self):
        for name, line in [
                ("planner/a.cc", "if (IsEpilogue(op.attrs)) return;"), ("graph/layers.cc", "Add({.attrs = Relu{}});"),
                ("graph/ops/ops.cc", "return std::holds_alternative<Relu>(attrs);"),
                ("graph/onnx/a.cc", "auto& p = std::get<Conv2d>(attrs);"),
                ("runtime/backend/cpu/a.cc", "int F(const Conv2d& conv);"),
                ("planner/a.cc", "if (std::holds_alternative<ComputeTask>(task.body)) return;"),
                ("planner/a.cc", "// std::get<Conv2d>(attrs)")]:
            self.assertEqual(self.found(name, line), [], line)


class SizeTest(unittest.TestCase):
    def functions(self, text):
        return [(line, lines) for line, lines, _ in check_layering.functions(text)]

    def test_counts_files(self):
        self.assertEqual(run("files", {"graph/a.cc": "\n" * 600}), [])
        self.assertEqual(run("files", {"graph/a.cc": "\n" * 601}), ["graph/a.cc:601: 601 lines, the limit is 600"])

    def test_counts_functions_at_namespace_and_class_level(self):
        body = "  f();\n" * 79
        for head in ["void F() {\n", "template <typename T>\nint G(T a) {\n", "TEST(FooTest, StatesTheFact) {\n",
                     "bool operator==(const A& a, const B& b) {\n", "A::A(int x) : b_{x}, c_(x) {\n",
                     "auto H(std::span<const int> a) -> std::vector<int> {\n"]:
            text = "namespace partita {\n\n" + head + body + "}\n\n}  // namespace partita\n"
            lines = 79 + head.count("\n") + 1
            self.assertEqual(self.functions(text), [(3, lines)], head)
            self.assertEqual(len(run("functions", {"graph/a.cc": text})), 1)
        text = "class A {\n public:\n  int F() const {\n" + body + "  }\n  int x_ = 3;\n};\n"
        self.assertEqual(self.functions(text), [(3, 81)])
        text = "struct A : B<int> {\n  A() = default;\n  int F() const override { return 1; }\n};\n"
        self.assertEqual(self.functions(text), [(3, 1)])

    def test_is_not_misled_by_literals_comments_and_tables(self):
        text = ('constexpr Row kRows[] = {\n' + '  {"{", 1},\n' * 100 + '};\n'
                'void F() {\n  // }\n  const char c = \'{\';\n  g("}", R"(}})", 1\'000);\n}\n')
        self.assertEqual(self.functions(text), [(103, 5)])

    def test_counts_parameters_of_whatever_is_declared(self):
        six = "int a, int b, int c, int d, int e, int f"
        for text in [f"void F({six});\n", f"class A {{\n public:\n  A({six}) : a_(a) {{}}\n  int a_ = 0;\n}};\n",
                     f"struct A {{\n  int F({six}) const override;\n}};\n",
                     f"template <class T = int>\nauto G({six}) -> int {{ return 1; }}\n",
                     f"void F() {{\n  const auto f = [&]({six}) {{ return a; }};\n}}\n",
                     f"void F() {{\n  struct Local {{\n    void G({six}) {{}}\n  }};\n}}\n",
                     "using F = std::function<void(int, int, int, int, int, int)>;\n",
                     "using F = int (*)(int, int, int, int, int, int);\n",
                     "void F(std::map<int, int> a, int b = G(1, 2), int c = 3, int d = 4, int e = 5, int f = 6);\n"]:
            text = "namespace partita {\n" + text + "}  // namespace partita\n"
            self.assertEqual(len(run("parameters", {"graph/a.h": text})), 1, text)

    def test_lets_five_parameters_calls_and_signatures_of_libraries_pass(self):
        six = "int a, int b, int c, int d, int e, int f"
        for text in ["void F(int a, int b, std::map<int, int> c, int d = G(1, 2), std::array<int, 3> e = {1, 2, 3});\n",
                     "void F() {\n  G(1, 2, 3, 4, 5, 6);\n  if (x) H(1, 2, 3, 4, 5, 6);\n}\n",
                     "A::A(int a) : b_{a}, c_(1, 2, 3, 4, 5, 6) {}\n", "A::A(int a) : c_(1, 2, 3, 4, 5, 6), d_(a) {}\n",
                     "constexpr A kA = A(1, 2, 3, 4, 5, 6);\n", "constexpr A kRows[] = {{\"x\", A(1, 2, 3, 4, 5, 6)}};\n",
                     "class A {\n  const A a_ = A(1, 2, 3, 4, 5, 6);\n};\n", f"// void F({six})\n",
                     f"cudnnStatus_t cudnnMake({six});\n", f"void F() {{\n  f.cublasLtMake = []({six}) {{ return 1; }};\n}}\n",
                     f"void* mmap({six}) noexcept;\n"]:
            self.assertEqual(run("parameters", {"graph/a.cc": text}), [], text)

    def test_wants_a_category_where_the_code_has_none(self):
        for text in ['return absl::CancelledError("x");\n', "return absl::Status(found.status().code(), text);\n",
                     'return absl::ResourceExhaustedError(text);\n']:
            self.assertEqual(len(run("codes", {"runtime/a.cc": text})), 1, text)
            self.assertEqual(run("codes", {"graph/support/error_category.cc": text, "tests/a.cc": text}), [])
        self.assertEqual(run("codes", {"runtime/a.cc": 'return absl::InvalidArgumentError("x");\n'}), [])

    def test_finds_left_over_marks_and_bad_names(self):
        self.assertEqual(len(run("marks", {"graph/a.cc": "// TO" + "DO later\n"})), 1)
        self.assertEqual(len(run("names", {"graph/a.h": "class PlanManager {\n};\n"})), 1)
        self.assertEqual(len(run("names", {"graph/plan_utils.h": "\n"})), 1)
        self.assertEqual(run("names", {"graph/a.h": "class Planner {\n};\n"}), [])

class PathsTest(unittest.TestCase):
    TREE = {"graph/box.h": "", "graph/ops/lrn.cc": "", "tests/bench/step_bench.cc": ""}

    def found(self, name, text):
        return run("paths", {**self.TREE, name: text})

    def test_finds_files_and_folders_that_are_not_there(self):
        for name, text in [("graph/a.cc", "int x;\n// graph/boxes.h has it.\n"),
                           ("graph/a.cc", "int x;\nint y;  /* see boxes.h */\n"),
                           ("graph/a.h", "\n// Of the folder graph/task.\n"), ("proto/a.proto", "\n// graph/task/\n"),
                           ("graph/a.py", '"""Text\nof graph/boxes.h.\n"""\n'),
                           ("tests/a.sh", "\nls  # tests/bench/boxes.py\n"),
                           ("README.md", "\nSee `graph/ops/box.h`.\n"), ("graph/a.cc", "\n// graph/ops/box.{h}\n"),
                           ("graph/README.md", "\n- `tests/bench/turns`: a program\n"),
                           ("graph/a.h", "\n// graph/*.py\n"), ("README.md", "\n`*_box.cc`\n")]:
            found = self.found(name, text)
            self.assertEqual(len(found), 1, (name, text, found))
            self.assertTrue(found[0].startswith(f"{name}:2: "), found)

    def test_finds_each_of_several_spellings(self):
        found = self.found("README.md", "`graph/ops/lrn.{h,cc,cu}`")
        self.assertEqual([line.split()[1] for line in found], ["graph/ops/lrn.h", "graph/ops/lrn.cu"])

    def test_lets_what_is_there_pass_and_what_is_no_path(self):
        for name, text in [("graph/a.cc", "// graph/box.h, box.h, ops/lrn.cc; graph/ops/, graph/*.h, *_bench.cc.\n"),
                           ("README.md", "[bench](tests/bench/), `tests/bench/step_bench`\n"),
                           ("README.md", "graph/ops/foo.{h,cc}, foo_kernel.h\n"),
                           ("graph/a.cc", 'F("graph/boxes.h");  // x.cc, proto/NAME.pb.h, 3 GB/s, and/or\n'),
                           ("graph/a.h", "// https://example.org/graph/boxes.h, build/graph/boxes\n"),
                           ("graph/a.py", "open('graph/boxes.h#x')\n")]:
            self.assertEqual(self.found(name, text), [], (name, text))


class ClassesTest(unittest.TestCase):
    def found(self, first, second):
        return run("classes", {"graph/a.h": first, "planner/b.cc": second})

    def test_finds_two_classes_of_one_name(self):
        for other in ["class Rank {\n};", "struct Rank final : Base {", "template <class T>\nstruct Rank {",
                      "enum class Rank : uint8_t {", "class alignas(64) Rank\n    : public Base {"]:
            found = self.found("namespace partita {\n\nclass Rank {\n};\n\n}  // namespace partita\n",
                               f"namespace partita {{\n{other}\n}}  // namespace partita\n")
            self.assertEqual(len(found), 1, (other, found))
            self.assertRegex(found[0], r"^planner/b.cc:\d+: Rank is another class at graph/a.h:3$")

    def test_lets_others_pass(self):
        first = "namespace partita {\nclass Rank {\n};\n}  // namespace partita\n"
        for second in ["namespace partita {\nnamespace {\nclass Rank {\n};\n}  // namespace\nclass Ranks {\n",
                       "namespace partita::mpi {\nclass Rank {\n", "namespace partita {\nclass Rank;\n",
                       "namespace partita {\nstruct Rank::Part {\n", "namespace partita {\nstruct Rank<int> {\n",
                       "namespace partita {\nclass Other {\n  class Rank {\n"]:
            self.assertEqual(self.found(first, second), [], second)


class LicencesTest(unittest.TestCase):
    PACKAGES = 'readonly A=(\n  "libfoo-dev|what it is for: foo"\n)\necho "a|b" "c|d"\n'

    def found(self, row):
        files = {"tools/packages.sh": self.PACKAGES}
        if row is not None:
            files["third_party/README.md"] = f"| dependency | package | for | licence | distributed |\n|---|---|---|---|---|\n{row}\n"
        return run("licences", files)

    def test_finds_packages_without_a_row_or_a_licence(self):
        for row in [None, "", "| Foo | `libfoo` | foo | MIT | no |", "| Foo | `libfoo-dev` | foo | | no |",
                    "| `libfoo-dev` | | foo | MIT | no |", "`libfoo-dev` is under MIT"]:
            found = self.found(row)
            self.assertEqual(len(found), 1, (row, found))
            self.assertTrue(found[0].startswith("tools/packages.sh:2: libfoo-dev "), found)

    def test_lets_packages_with_a_licence_pass(self):
        for row in ["| Foo | `libfoo-dev` | foo | MIT | no |", "| Foo | `foo`, `libfoo-dev` | foo | MIT | linked |"]:
            self.assertEqual(self.found(row), [], row)
        self.assertEqual(run("licences", {"README.md": ""}), [])


if __name__ == "__main__":
    unittest.main()
