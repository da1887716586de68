"""What the tests of the command line share: running the program as users do, and reporting.

A test file ends in run(globals(), "NameOfSuite") and is called FILE BINARY SOURCE_FOLDER REPORT [PATTERN]. Its cases,
the functions test_..., run in a temporary folder; PATTERN selects some. The report is in GoogleTest's form, so that
tools/count_tests.py counts every case. Exit status 1 when a case failed.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree as ElementTree

BINARY = SOURCES = None
SMALL = "--devices 2 --oversubscribe --profile_time 1 --evaluations 50"
QUICK = "--devices 2 --oversubscribe --profile_time 0 --evaluations 50"
ELSEWHERE = "--machine p100-4x4 --devices 2 --evaluations 50"


class Result:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def json(self):
        return json.loads(self.out)


def partita(line, expect=0):
    """Runs a command line; its words have no spaces. Fails on another exit code than `expect`."""
    done = subprocess.run([BINARY] + line.split(), capture_output=True, text=True, timeout=600, check=False)
    result = Result(done)
    if result.code != expect:
        raise AssertionError(f"partita {line}: exit {result.code} instead of {expect}\n{result.out}{result.err}")
    return result


class Skipped(Exception):
    """A case that cannot be tried here; its text says why."""


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def answer(line, keys, expect=0):
    """The --json answer, which has these keys."""
    found = partita(line + " --json", expect).json()
    check(found.get("schema_version") == 1, f"no schema_version in {found}")
    missing = [key for key in keys.split() if key not in found]
    check(not missing, f"partita {line} --json lacks {missing}; it has {list(found)}")
    return found


def refuses(line, code, pattern):
    """Exit code, a message on stderr that fits the pattern, nothing on stdout, and the same as JSON."""
    result = partita(line, code)
    check(re.search(pattern, result.err), f"partita {line}: the message is not like '{pattern}': {result.err}")
    check(result.out == "", f"partita {line}: an error wrote to stdout: {result.out}")
    error = partita(line + " --json", code).json()
    check(error["schema_version"] == 1 and error["error"]["exit_code"] == code, f"bad JSON error: {error}")
    check(re.search(pattern, error["error"]["message"]), f"other message in JSON: {error}")
    return error


def on_terminal(line, stream, columns):
    """What a command shows on a terminal of so many columns that its "stdout" or "stderr" is."""
    main, other = os.openpty()
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: other}
    done = subprocess.Popen([BINARY, *line.split()], env={**os.environ, "COLUMNS": str(columns)}, **streams)
    os.close(other)
    text = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # its other end is closed
            break
        if not part:
            break
        text += part
    os.close(main)
    check(done.wait(timeout=60) == 0, f"partita {line}: exit {done.returncode}: {text.decode()}")
    return text.decode().replace("\r\n", "\n")


def lenet_plan():
    """A plan of lenet for two devices, made once."""
    path = pathlib.Path("shared.plan.textproto")
    if not path.exists():
        partita(f"plan lenet --batch 8 --strategy data_parallel {QUICK} -o {path}")
    return path


def edited(path, old, new, to):
    text = pathlib.Path(path).read_text()
    changed = re.sub(old, new, text)
    check(changed != text, f"'{old}' is not in {path}")
    pathlib.Path(to).write_text(changed)
    return to


def data(name):
    return f"{SOURCES}/tests/data/{name}"


def run_cases(cases, wanted):
    """(name, failure or None, seconds, why skipped or None) of each case."""
    rows = []
    for name, case in list(cases.items()):
        if not name.startswith("test_") or not re.search(wanted, name):
            continue
        start, failure, skipped = time.monotonic(), None, None
        try:
            case()
        except Skipped as reason:
            skipped = str(reason)
        except Exception as error:  # pylint: disable=broad-except
            failure = str(error) or repr(error)
            if not isinstance(error, AssertionError):
                failure = traceback.format_exc()
        rows.append((name, failure, time.monotonic() - start, skipped))
        outcome = "  FAILED" if failure else " SKIPPED" if skipped else "      OK"
        print(f"[{outcome} ] {name} ({rows[-1][2]:.1f} s)", flush=True)
        if failure or skipped:
            print(failure or skipped, flush=True)
    return rows


def write_report(rows, suite_name, path):
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", name=suite_name, tests=str(len(rows)))
    for name, failure, seconds, skipped in rows:
        case = ElementTree.SubElement(suite, "testcase", classname=suite_name, name=name, status="run",
                                      result="completed", time=f"{seconds:.3f}")
        if failure:
            ElementTree.SubElement(case, "failure", message=failure)
        if skipped:
            ElementTree.SubElement(case, "skipped", message=skipped)
    ElementTree.ElementTree(suites).write(path, encoding="utf-8")


def run(cases, suite_name):
    """Runs the cases of a test file and exits."""
    global BINARY, SOURCES
    for number in (signal.SIGINT, signal.SIGHUP):  # the program leaves ignored what was so before, as in the background
        signal.signal(number, lambda *_: sys.exit(130))
    BINARY, SOURCES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    report = os.path.abspath(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rows = run_cases(cases, sys.argv[4] if len(sys.argv) > 4 else "")
        os.chdir("/")
    os.makedirs(os.path.dirname(report), exist_ok=True)
    write_report(rows, suite_name, report)
    failed = sum(1 for row in rows if row[1])
    skipped = sum(1 for row in rows if row[3])
    print(f"{len(rows) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not rows else 0)


def skipping(cases, reason):
    """The same cases, each skipped."""
    def skip():
        raise Skipped(reason)
    return {name: skip for name in cases if name.startswith("test_")}
