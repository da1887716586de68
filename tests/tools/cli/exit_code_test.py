#!/usr/bin/env python3
"""Every category of errors ends the program with its documented exit code, which the error carries from where it arises.

exit_code_test.py BINARY SOURCE_FOLDER REPORT [PATTERN]; see harness.py.
"""

import pathlib
import re
import sqlite3

import harness
from harness import ELSEWHERE, QUICK, check, edited, lenet_plan, partita, refuses, run

CODES = (0, 1, 2, 3, 4, 5, 7, 130)


def test_help_and_readme_list_the_codes():
    listed = partita("--help").out.split("Exit codes:")[1]
    check([int(code) for code in re.findall(r"^ +(\d+) +\S", listed, re.MULTILINE)] == list(CODES), listed)
    readme = (pathlib.Path(harness.SOURCES) / "README.md").read_text(encoding="utf-8")
    words = " ".join(re.search(r"Exit\s+codes:(.*?)\.\n", readme, re.DOTALL)[1].split())
    check([int(code) for code in re.findall(r"(?:^|; ?)(\d+) ", words.strip())] == list(CODES), words)
    for description in re.findall(r"^ +\d+ +(.*)", listed, re.MULTILINE):
        check(description in words, f"README has no '{description}': {words}")


def test_1_what_was_computed_is_wrong():
    refuses(f"run {lenet_plan()} --steps 40 --lr 3e38 --timeline none", 1, r"loss is -?(nan|inf)")


def test_2_what_was_asked_for_cannot_be():
    for line, why in ((f"plan lenet {ELSEWHERE} --search magic", "unknown search 'magic'"),
                      ("plan lenet --machine p100-4x4 --evaluations -1", "evaluations.*whole number from 1.*'-1'"),
                      (f"run {lenet_plan()} --steps 1 --epochs 1", "leave one away"),
                      (f"run {lenet_plan()} --virtual_devices 7", "the plan has 2 devices"),
                      (f"run {lenet_plan()} --backend gpu=cpu", "no device of the plan is of that class"),
                      ("verify", "either a plan file or --reference"),
                      ("launch -n 2 plan lenet", "launch wants what every rank shall do"),
                      ("profile lenet --machine p100-4x4", "only --machine local"),
                      ("compare lenet --machine p100-4x4 --measure --evaluations 9", "this host"),
                      ("import lenet -o lenet.onnx", "ends in .textproto")):
        refuses(line, 2, why)


def test_2_an_expert_that_declines_is_a_wrong_choice_and_no_lack_of_memory():
    for model, strategy, why in (("mlp_tiny", "spatial", "image"), ("mlp_tiny", "operator_placement", "pooling|padding")):
        refuses(f"plan {model} {ELSEWHERE} --strategy {strategy}", 2, f"strategy '{strategy}' declines: .*{why}")


def test_3_an_input_file_is_absent_bad_or_of_something_else():
    pathlib.Path("bad.onnx").write_bytes(b"no model")
    for line, why in ((f"plan absent.onnx {ELSEWHERE}", "absent.onnx"), (f"plan bad.onnx {ELSEWHERE}", "bad.onnx"),
                      (f"verify {lenet_plan()} --model mlp_tiny", "fingerprint|another graph|operator"),
                      (f"run {lenet_plan()} --data absent", "absent"),
                      (f"run {lenet_plan()} --load absent.safetensors", "absent.safetensors")):
        refuses(line, 3, why)


def test_4_what_does_not_fit_in_memory():
    partita("machine discover --devices 2 --oversubscribe -o roomy.textproto")
    path = edited("roomy.textproto", r"memory_bytes: \d+", "memory_bytes: 20000", "narrow.textproto")
    for search in ("--evaluations 30", "--strategy data_parallel"):
        refuses(f"plan lenet --profile_time 0 --machine {path} {search}", 4, r"device [01] \(.*\) needs \d+ bytes and has 20000")
    refuses(f"verify {lenet_plan()} --memory 1000", 4, "1000 may be used")


def test_5_devices_communication_and_the_system():
    partita(f"plan alexnet_s56 --batch 16 --strategy data_parallel {QUICK} -o slow.textproto")
    refuses("run slow.textproto --steps 1 --hang_seconds 0.000001", 5, "no device made progress")


def test_7_a_foreign_profile():
    partita("profile mlp_tiny --devices 2 --oversubscribe --profile elsewhere.db --profile_time 1")
    with sqlite3.connect("elsewhere.db") as base:
        base.execute("delete from device")
        base.execute("insert into device (hardware, configuration) values ('another computer', 'cpu')")
    base.close()
    refuses(f"plan mlp_tiny {QUICK} --profile elsewhere.db", 7, "another computer")


def test_the_text_around_an_error_keeps_its_category():
    text = pathlib.Path(lenet_plan()).read_text(encoding="utf-8")
    pathlib.Path("moved.textproto").write_text(
        re.sub(r'machine: "local"', 'machine: "absent/machine.textproto"', text), encoding="utf-8")
    refuses("simulate moved.textproto", 3, "the plan was made for machine 'absent/machine.textproto'.*--machine")


if __name__ == "__main__":
    run(globals(), "ExitCodeTest")
