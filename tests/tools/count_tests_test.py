#!/usr/bin/env python3
"""tools/count_tests.py sums cases, not programs, and hides no failure and no skip."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import count_tests  # noqa: E402

CASES = """<testsuites><testsuite name="BoxTest">
<testcase name="Splits" classname="BoxTest" status="run" result="completed"/>
<testcase name="NeedsGpu" classname="BoxTest" status="run" result="skipped"><skipped message="x.cc:1&#x0A;no GPU"/></testcase>
%s</testsuite></testsuites>"""


def count(checks, ctest, cases):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "checks").write_text(checks)
        (folder / "tests.xml").write_text(f"<testsuite>{ctest}</testsuite>")
        (folder / "tests.cases").mkdir()
        for name, text in cases.items():
            (folder / "tests.cases" / f"{name}.xml").write_text(text)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = count_tests.main(folder)
        return status, out.getvalue().splitlines()


class CountTestsTest(unittest.TestCase):
    def test_sums_cases_and_lists_skips_with_their_reason(self):
        status, lines = count("passed build\nskipped clang-format: none here\n",
                              '<testcase name="box_test" status="run"/><testcase name="size" status="run"/>',
                              {"box_test": CASES % ""})
        self.assertEqual(status, 0)
        self.assertEqual(lines[-1], "3 passed, 0 failed, 2 skipped")
        self.assertIn("skipped: tests: box_test: BoxTest.NeedsGpu: x.cc:1 no GPU", lines)
        self.assertIn("skipped: clang-format: none here", lines)

    def test_a_failed_case_fails_the_run(self):
        failed = '<testcase name="Bad" classname="BoxTest" status="run"><failure message="a.cc:3&#x0A;1 != 2"/></testcase>'
        status, lines = count("", '<testcase name="box_test" status="fail"><failure message=""/></testcase>',
                              {"box_test": CASES % failed})
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], "1 passed, 1 failed, 1 skipped")
        self.assertIn("failed: tests: box_test: BoxTest.Bad: a.cc:3 1 != 2", lines)

    def test_a_program_that_fails_after_its_cases_or_writes_no_report_is_a_failure(self):
        fail = '<testcase name="box_test" status="fail"><failure message="SEGFAULT"/></testcase>'
        self.assertEqual(count("", fail, {"box_test": CASES % ""})[1][-1], "1 passed, 1 failed, 1 skipped")
        self.assertEqual(count("", fail, {})[1][-1], "0 passed, 1 failed, 0 skipped")
        self.assertEqual(count("", fail, {"box_test": "<testsuites><tests"})[1][-1], "0 passed, 1 failed, 0 skipped")

    def test_a_missing_program_is_a_failure_and_a_skip_that_was_asked_for_is_none(self):
        missing = '<testcase name="a" status="notrun"><skipped message="Unable to find executable"/></testcase>'
        asked = '<testcase name="b" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>'
        self.assertEqual(count("", missing + asked, {})[1][-1], "0 passed, 1 failed, 1 skipped")

    def test_nothing_ran_is_a_failure(self):
        self.assertEqual(count("", "", {}), (1, ["0 passed, 0 failed, 0 skipped"]))


if __name__ == "__main__":
    unittest.main()
