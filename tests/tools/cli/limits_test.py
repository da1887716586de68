#!/usr/bin/env python3
"""What little memory and few threads lead to: a documented exit code and what was being done. See harness.py."""

import os
import pathlib
import re
import resource
import struct
import subprocess

import harness
from harness import QUICK, Skipped, check, data, edited, lenet_plan, partita, run
from small_onnx import small_onnx

NOBODY = 65534


def limited(line, before, **options):
    """The result of a command line in a process that calls before() first."""
    return harness.Result(subprocess.run([harness.BINARY] + line.split(), capture_output=True, text=True, check=False,
                                         timeout=300, preexec_fn=before, **options))


def address_space(megabytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


def loaded_megabytes():
    """What a program that does next to nothing takes of address space: libraries, above all."""
    least, most = 16, 1 << 16
    while least + 1 < most:
        middle = (least + most) // 2
        if limited("list models", address_space(middle)).code == 0:
            most = middle
        else:
            least = middle
    return most


def test_memory_that_is_refused_says_what_was_being_done():
    enough = loaded_megabytes()
    large = data("models/inception_v3.onnx")
    line = f"import {large} -o large.textproto"
    result = limited(line, address_space(enough))
    check(result.code == 4, f"exit {result.code} instead of 4: {result.err}")
    check(re.search(r"partita: out of memory while reading model '.*inception_v3.onnx'; .*ulimit -v", result.err),
          f"the message: {result.err}")
    check(not pathlib.Path("large.textproto").exists(), "a file was written")
    error = limited(line + " --json", address_space(enough)).json()["error"]
    check(error["exit_code"] == 4 and "out of memory while reading" in error["message"], f"the JSON: {error}")
    for more in range(8):
        result = limited(line, address_space(enough + more))
        check(result.code in (0, 4), f"{more} MB more: exit {result.code}: {result.err}")


def test_what_does_not_fit_is_refused_before_memory_is_taken():
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 80 << 30:
        raise Skipped("this host has the memory")
    partita("import mlp_tiny -o small.textproto")
    # 5.4 GB of weights, on each of 8 devices that have 16 GB, but not here.
    edited("small.textproto", r"\b96\b", "12000000", "large.textproto")
    partita("plan large.textproto --machine p100-4x4 --devices 8 --strategy data_parallel -o large.plan.textproto")
    with open("said", "w", encoding="utf-8") as said:
        process = subprocess.Popen([harness.BINARY] + "run large.plan.textproto --backend cpu --steps 1".split(),
                                   stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
    text = pathlib.Path("said").read_text(encoding="utf-8")
    check(os.waitstatus_to_exitcode(status) == 4, f"exit {os.waitstatus_to_exitcode(status)} instead of 4: {text}")
    check(re.search(r"take \d{11,} bytes; \d+ are left", text), f"the message: {text}")
    check(used.ru_maxrss < 1 << 19, f"{used.ru_maxrss} kB were taken")


def test_tiny_files_that_ask_for_much_are_refused_with_little_memory():
    plan = lenet_plan()
    little = address_space(loaded_megabytes() + 400)  # threads take address space, too
    folder = pathlib.Path("many")
    folder.mkdir()
    (folder / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", (1 << 32) - 1, 28, 28))
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", (1 << 32) - 1))
    pathlib.Path("long.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    tensor = b'{"x":{"dtype":"F32","shape":[1099511627776,4],"data_offsets":[0,17592186044416]}}'
    pathlib.Path("wide.safetensors").write_bytes(struct.pack("<Q", len(tensor)) + tensor)
    edited(plan, r'(?m)^order: ".*"$', 'order: "0-2000000000"', "ordered.plan.textproto")
    pathlib.Path("wide.onnx").write_bytes(small_onnx(classes=1 << 40))
    partita("import mlp_tiny -o tiny.textproto")
    edited("tiny.textproto", r"\b96\b", str(1 << 33), "wide.textproto")
    for line, code, pattern in (
            (f"run {plan} --data many", 3, r"images-idx3-ubyte.*announces"),
            (f"run {plan} --load long.safetensors", 3, r"long\.safetensors"),
            (f"run {plan} --load wide.safetensors", 3, r"wide\.safetensors"),
            ("run ordered.plan.textproto", 3, r"order"),
            ("import wide.onnx", 3, r"wide\.onnx"),
            ("import wide.textproto", 3, r"wide\.textproto"),
            ("plan lenet --batch 1000000000", 2, r"batch.*1048576")):
        result = limited(line, little)
        check(result.code == code, f"{line}: exit {result.code} instead of {code}: {result.err}")
        check(re.search(pattern, result.err), f"{line}: the message is not like '{pattern}': {result.err}")


def test_threads_that_are_refused_say_what_for():
    if os.getuid() == 0:  # who is not limited
        def before():
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    else:
        def before():
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    partita(f"plan mlp_tiny --strategy data_parallel {QUICK} -o tiny.plan.textproto")
    os.chmod(".", 0o755)
    try:
        found = limited("list models", before).code
    except (OSError, subprocess.SubprocessError) as error:
        raise Skipped(f"another user cannot run the program here: {error}") from error
    check(found == 0, f"list models: exit {found}")
    result = limited("run tiny.plan.textproto --steps 1 --timeline none", before)
    check(result.code == 5, f"exit {result.code} instead of 5: {result.err}")
    check(re.search(r"no further thread while starting a thread for '.*ulimit -u", result.err),
          f"the message: {result.err}")


def test_threads_whose_stacks_have_no_room_are_told_of_both_limits():
    partita(f"plan mlp_tiny --strategy data_parallel {QUICK} -o stacks.plan.textproto")

    def before():
        resource.setrlimit(resource.RLIMIT_STACK, (4 << 30, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    result = limited("run stacks.plan.textproto --steps 1 --timeline none", before)
    check(result.code == 5, f"exit {result.code} instead of 5: {result.err}")
    check(re.search(r"no further thread while .*ulimit -u.*ulimit -v", result.err), f"the message: {result.err}")


if __name__ == "__main__":
    run(globals(), "LimitsTest")
