#!/usr/bin/env python3
"""tools/check_includes.py finds names whose header is not reached, and nothing else."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_includes  # noqa: E402

SHAPES = """#pragma once
namespace partita {
struct Shape {
  int area() const;
};
inline constexpr int kCorners = 4;
int AreaOf(const Shape& shape);
}  // namespace partita
"""


def run(source, **headers):
    with tempfile.TemporaryDirectory() as root:
        files = {"graph/shape.h": SHAPES, "graph/use.cc": source}
        files.update({f"graph/{name}.h": text for name, text in headers.items()})
        for name, text in files.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(check_includes.Sources(root).violations())


class IncludesTest(unittest.TestCase):
    def test_a_class_a_function_and_a_constant_that_are_not_reached_are_named(self):
        for line, name in [("void Draw(const Shape& shape) {}", "Shape"), ("int x = AreaOf(y);", "AreaOf"),
                           ("int x = 2 * kCorners;", "kCorners"), ("int F() { return AreaOf(y); }", "AreaOf")]:
            self.assertEqual(run(f"namespace partita {{\n{line}\n}}\n"), [f"graph/use.cc:2: {name} is in graph/shape.h"], line)

    def test_what_is_included_by_a_header_on_the_way_is_reached(self):
        source = '#include "graph/draw.h"\nint x = AreaOf(y);\n'
        self.assertEqual(run(source, draw='#pragma once\n#include "graph/shape.h"\n'), [])
        self.assertEqual(len(run(source, draw="#pragma once\n")), 1)

    def test_names_of_the_file_itself_of_others_and_in_words_are_let_be(self):
        for line in ["struct Shape {};\nShape shape;", "int AreaOf(int side) { return side; }", "int x = other::AreaOf(y);",
                     "int x = y.AreaOf();", "// AreaOf a Shape\nconst char* x = \"AreaOf\";", "enum Side { kCorners, kEdges };"]:
            self.assertEqual(run(line + "\n"), [], line)

    def test_a_name_that_two_headers_declare_is_not_judged(self):
        self.assertEqual(run("int x = AreaOf(y);\n", area="#pragma once\nint AreaOf(int side);\n"), [])


if __name__ == "__main__":
    unittest.main()
