#!/usr/bin/env python3
"""Sums up a test run: count_tests.py FOLDER.

FOLDER holds `checks` (lines "passed|failed|skipped NAME[: reason]"), and for each ctest run NAME.xml (ctest's JUnit
report) and NAME.cases/ (a GoogleTest report TEST.xml for each test program). A test with a GoogleTest report counts
by its cases, one without counts as one. Prints each failure and each skip with its reason, and as the last line
"N passed, N failed, N skipped". Exit status 1 when something failed or nothing ran.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def read_checks(path):
    rows = []
    for line in path.read_text().splitlines():
        outcome, _, rest = line.partition(" ")
        name, _, reason = rest.partition(": ")
        rows.append((outcome, name, reason))
    return rows


def first_line(text):
    lines = [line.strip() for line in (text or "").splitlines()]
    # GoogleTest puts "file:line" on a line of its own before the message.
    return " ".join(line for line in lines if line)[:300]


def read_cases(path):
    """The cases of one GoogleTest report; None where there is no whole report (the program ended early)."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    rows = []
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        failure, skipped = case.find("failure"), case.find("skipped")
        if failure is not None:
            rows.append(("failed", name, first_line(failure.get("message"))))
        elif case.get("status") == "notrun":
            rows.append(("skipped", name, "disabled in the source"))
        elif skipped is not None or case.get("result") == "skipped":
            rows.append(("skipped", name, first_line(skipped.get("message") if skipped is not None else "")))
        else:
            rows.append(("passed", name, ""))
    return rows


def read_ctest(report, cases_folder):
    rows = []
    for test in ElementTree.parse(report).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        cases = read_cases(cases_folder / f"{name}.xml")
        if status in ("run", "fail") and cases is not None:
            rows += [(outcome, f"{name}: {case}", reason) for outcome, case, reason in cases]
            if status == "fail" and not any(outcome == "failed" for outcome, _, _ in cases):
                rows.append(("failed", name, "every case passed, yet the program ended with an error"))
        elif status == "run":
            rows.append(("passed", name, ""))
        elif status == "fail":
            rows.append(("failed", name, first_line(test.find("failure").get("message"))))
        else:  # Not run. Only a test that asked to be skipped is a skip; a missing program is a failure.
            note = test.find("skipped")
            reason = first_line(note.get("message")) if note is not None else status
            asked = status == "disabled" or reason.startswith("SKIP_")
            rows.append(("skipped" if asked else "failed", name, reason))
    return rows


def main(folder):
    folder = pathlib.Path(folder)
    rows = read_checks(folder / "checks")
    for report in sorted(folder.glob("*.xml")):
        run = [(outcome, f"{report.stem}: {name}", reason)
               for outcome, name, reason in read_ctest(report, folder / f"{report.stem}.cases")]
        rows += run
    for wanted in ("skipped", "failed"):
        for outcome, name, reason in rows:
            if outcome == wanted:
                print(f"{outcome}: {name}" + (f": {reason}" if reason else ""))
    counts = {wanted: sum(1 for row in rows if row[0] == wanted) for wanted in ("passed", "failed", "skipped")}
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 0 if counts["failed"] == 0 and counts["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
