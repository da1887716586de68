#!/usr/bin/env python3
"""What a refused call or allocation leads to, whichever it is: a documented exit code, a message, files that are whole.

Memory that is lost on the way out is looked for: by the leak sanitizer where calls of an ordinary program fail, by the
address sanitizer where the program is built with it (FAULT_SANITIZED=1); then refused allocations are tried, too.

The verbs that write files run on a small model under tests/testing/fault_injection, which lets the n-th open, write,
fsync, rename, realpath, mmap, thread creation or allocation fail. By default a sample that follows a seed (printed);
with FAULT_ALL=1 every n of every kind, every call site of allocations once and 1,000 random allocations of each verb.
FAULT_SEED sets the seed, FAULT_SAMPLED the size of a sample, FAULT_INJECTOR is the library's file. See harness.py.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import struct
import subprocess
import tempfile

import harness
from harness import Skipped, check, partita, run
from small_onnx import small_onnx

INJECTOR = os.environ.get("FAULT_INJECTOR", "")
ALL = os.environ.get("FAULT_ALL") == "1"
SANITIZED = os.environ.get("FAULT_SANITIZED") == "1"
SEED = int(os.environ.get("FAULT_SEED", "10"))
# Faults of a kind and verb that are sampled; FAULT_SAMPLED sets another number.
SAMPLED = {"open": 2, "write": 2, "fsync": 2, "rename": 2, "path": 20, "mmap": 2, "thread": 2, "alloc": 6, "site": 8}
if "FAULT_SAMPLED" in os.environ:
    SAMPLED = dict.fromkeys(SAMPLED, int(os.environ["FAULT_SAMPLED"]))
RANDOM_ALLOCATIONS = 1000
ALLOCATIONS = ("alloc", "sites", "site")  # end the program where they fail: nothing to look for
LEAKED = 99  # exit code of a run in which the leak sanitizer finds memory that nothing refers to any more
SECONDS = 120  # a run that takes longer hangs
FILE_CODES = {0, 3, 5}
OTHER_HOST = 7  # a host of which something cannot be read is another one than the profile is of
CODES = {"path": {0, 4}, "alloc": {0, 4, 5}, "site": {0, 4, 5}, "thread": {0, 5}, "mmap": {0, 3, 4, 5}}
# Libraries that die of a signal, or lose memory, where they themselves are refused some; tests/README.md lists them.
MAY_ABORT = re.compile(r"libdnnl\.|libhwloc\.|libcrypto\.|libprotobuf\.")
TEMPORARY = re.compile(r"\.partita-|-journal$|-wal$|-shm$")


def leak_sanitizer():
    """The library to preload; empty where there is none."""
    try:
        found = subprocess.run(["gcc", "-print-file-name=liblsan.so"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip() if os.path.isabs(found.stdout.strip()) else ""


LEAKS = "" if SANITIZED else leak_sanitizer()
# A program with the address sanitizer: the injector comes before the sanitizer's library, whose calls it makes.
ASAN_OPTIONS = f"exitcode={LEAKED}:verify_asan_link_order=0:handle_segv=0:handle_abort=0:handle_sigbus=0"
# What the dynamic linker keeps is taken for lost where its allocations pass through the injector.
SUPPRESSED = pathlib.Path("suppressions").absolute()
SUPPRESSIONS = "leak:_dl_map_object_deps\nleak:_dl_open\nleak:dl_open_worker\n"
UBSAN_OPTIONS = f"halt_on_error=1:exitcode={LEAKED}:print_stacktrace=1"

LSAN_OPTIONS = f"exitcode={LEAKED}:handle_segv=0:handle_abort=0:handle_sigbus=0"

# What is there after a run: as before it, or as a run without faults writes it.


def same_bytes(found, before, after):
    return found in (before, after)


def same_plan(found, before, after):
    def text(content):  # without what the clock decides
        return re.sub(rb"(?m)^.*seconds:.*$", b"", content)
    return text(found) in (text(before), text(after))


def whole_json(found, _before, _after):
    return isinstance(json.loads(found), (dict, list))


def whole_database(found, _before, _after):
    with tempfile.NamedTemporaryFile(suffix=".db") as copy:
        copy.write(found)
        copy.flush()
        with sqlite3.connect(copy.name) as database:
            return database.execute("pragma integrity_check").fetchone() == ("ok",)


LOCAL = "--devices 2 --oversubscribe --profile known.db"
# {name: (command line, {output: whether it is whole})}
VERBS = {
    "import": ("import model.onnx -o out.textproto", {"out.textproto": same_bytes, "out.safetensors": same_bytes}),
    "plan": (f"plan model.onnx {LOCAL} --profile_time 0 --evaluations 20 -o out.plan.textproto",
             {"out.plan.textproto": same_plan, "known.db": whole_database}),
    "profile": (f"profile model.onnx {LOCAL} --profile_time 0.3", {"known.db": whole_database}),
    "run": ("run base.plan.textproto --steps 2 --data images --data_workers 2 --save trained.safetensors "
            "--timeline out.json", {"trained.safetensors": same_bytes, "out.json": whole_json}),
}


class Fault:
    """A run of a verb with one fault ("KIND:N", "site:HASH:N"), or with none ("alloc:0"), in a folder of its own."""

    def __init__(self, verb, fault, folder):
        self.verb, self.fault, self.folder = verb, fault, pathlib.Path(folder)
        self.line, self.outputs = VERBS[verb]
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree("start", self.folder)
        log = self.folder / "log"
        preload = [INJECTOR]
        if fault.split(":")[0] not in ALLOCATIONS and LEAKS:
            preload.append(LEAKS)
        environment = dict(os.environ, LD_PRELOAD=" ".join(preload), FAULT=fault, FAULT_LOG=str(log.absolute()),
                           LSAN_OPTIONS=f"{LSAN_OPTIONS}:suppressions={SUPPRESSED}:print_suppressions=0",
                           ASAN_OPTIONS=ASAN_OPTIONS, UBSAN_OPTIONS=UBSAN_OPTIONS)
        try:
            done = subprocess.run([harness.BINARY] + self.line.split(), cwd=self.folder, env=environment, check=False,
                                  capture_output=True, text=True, timeout=SECONDS)
            self.code, self.said, self.out = done.returncode, done.stderr, done.stdout
        except subprocess.TimeoutExpired as expired:
            self.code, self.said, self.out = None, str(expired.stderr), ""
        self.sites, self.calls, self.failed_in = [], 0, None
        for words in (row.split() for row in log.read_text().splitlines()) if log.exists() else ():
            if words[0] == "site":
                self.sites.append(f"site:{words[1]}:{words[2]}")
            elif words[0] == "calls":
                self.calls = int(words[1])
            else:
                self.failed_in = words[2]
        log.unlink(missing_ok=True)

    def contents(self):
        return {name: (self.folder / name).read_bytes() for name in self.outputs}

    def left_over(self):
        return [path.name for path in self.folder.iterdir() if TEMPORARY.search(path.name)]

    def dies_in_library(self):
        return self.code is not None and self.code < 0 and bool(MAY_ABORT.match(self.failed_in or ""))

    def leaks_in_library(self):
        """Whether all that is lost is memory of the library that was refused some."""
        lost = re.split(r"(?m)^(?:Direct|Indirect) leak of", self.said)[1:]
        library = MAY_ABORT.match(self.failed_in or "")
        return self.code == LEAKED and bool(lost) and bool(library) and all(library[0] in leak for leak in lost)

    def dies_in_sanitizer(self):
        """Whether the sanitizer's own start of a thread has ended the program: it wants memory, too."""
        return SANITIZED and self.code == LEAKED and "AddressSanitizer: CHECK failed" in self.said

    def problems(self, before, after):
        """What is not as promised; before, after: contents() without a run and after one without faults."""
        allowed = CODES.get(self.fault.split(":")[0], FILE_CODES)
        if re.match(r"libhwloc\.", self.failed_in or ""):
            allowed = allowed | {OTHER_HOST}
        if self.code is None:
            yield "hangs"
        elif self.dies_in_library() or self.leaks_in_library() or self.dies_in_sanitizer():
            pass
        elif self.code not in allowed:
            yield f"exit {self.code} instead of one of {sorted(allowed)}"
        if self.code and 0 < self.code < LEAKED and not re.search(r"partita: .{8}", self.said):
            yield "no message"
        for name, is_whole in self.outputs.items():
            path = self.folder / name
            if not path.exists():
                yield f"{name} is gone"
            elif not is_whole(path.read_bytes(), before[name], after[name]):
                yield f"{name} is neither the old file nor the new one"
            elif self.code == 0 and is_whole in (same_bytes, same_plan) and before[name] == path.read_bytes():
                # What cannot be read is no worse plan for sure: the new one goes beside it, and the output says so.
                if before[name] != after[name] and f"kept: {name}" not in self.out:
                    yield f"{name} is the old file after success"
        if self.left_over():
            left = self.left_over()
            subprocess.run([harness.BINARY] + self.line.split(), cwd=self.folder, check=False, capture_output=True,
                           timeout=SECONDS)
            if self.left_over():
                yield f"{left} stay, also after the next run"


def prepare():
    """Makes the folder "start", as it is before any run."""
    start = pathlib.Path("start")
    if start.exists():
        return
    check(os.path.exists(INJECTOR), f"FAULT_INJECTOR={INJECTOR} is not there")
    SUPPRESSED.write_text(SUPPRESSIONS)
    start.mkdir()
    os.chdir(start)
    pathlib.Path("model.onnx").write_bytes(small_onnx())
    write_images(pathlib.Path("images"), 64, (8, 8))
    partita(f"profile model.onnx {LOCAL} --profile_time 1")
    partita(f"plan model.onnx {LOCAL} --profile_time 0 --strategy data_parallel -o base.plan.textproto")
    # Older outputs, which differ from the new ones.
    partita("import model.onnx --batch 6 -o out.textproto")
    pathlib.Path("out.safetensors").touch()
    partita("run base.plan.textproto --steps 1 --save trained.safetensors --timeline out.json")
    shutil.copy("base.plan.textproto", "out.plan.textproto")
    os.chdir("..")


def write_images(folder, count, shape):
    folder.mkdir()
    pixels = count * shape[0] * shape[1]
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", count, *shape)
    (folder / "train-images-idx3-ubyte").write_bytes(header + bytes(k * 7 % 256 for k in range(pixels)))
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", count) +
                                                     bytes(k % 10 for k in range(count)))


def faults_of(verb, kind, number):
    """The faults of a kind to try, by a run that counts them."""
    if kind == "site":
        faults = Fault(verb, "sites:0", "counting").sites
        calls = len(faults)
    else:
        calls = Fault(verb, f"{kind}:0", "counting").calls
        faults = [f"{kind}:{n + 1}" for n in range(calls)]
    shutil.rmtree("counting")
    if kind == "alloc" and ALL:
        faults = number.sample(faults, min(RANDOM_ALLOCATIONS, calls))
    elif not ALL:
        faults = number.sample(faults, min(SAMPLED[kind], calls))
    return faults, calls


def try_faults(kind):
    """Every verb under faults of a kind."""
    prepare()
    number = random.Random(SEED)
    wrong = []
    for verb in VERBS:
        good = Fault(verb, f"{kind}:0" if kind != "site" else "alloc:0", "good")
        check(good.code == 0, f"{good.line}: exit {good.code} without a fault: {good.said}")
        after = good.contents()
        shutil.rmtree("good")
        before = {name: (pathlib.Path("start") / name).read_bytes() for name in good.outputs}
        faults, calls = faults_of(verb, kind, number)

        def tried(fault):
            done = Fault(verb, fault, tempfile.mkdtemp(dir=".") + "/run")
            found = list(done.problems(before, after))
            shutil.rmtree(done.folder.parent)
            return done, [f"{verb}, {fault} in {done.failed_in}: {what}: {done.said[-300:]}" for what in found]

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(tried, faults))
        codes = collections.Counter(str(done.code) for done, _ in results)
        died = collections.Counter(f"{done.failed_in} ({done.code})" for done, _ in results
                                   if done.dies_in_library() or done.leaks_in_library())
        print(f"{verb}: {calls} {kind} of a run, {len(faults)} tried, "
              f"{sum(done.failed_in is not None for done, _ in results)} failed; exit codes {dict(codes)}"
              + (f", in libraries {dict(died)}" if died else ""), flush=True)
        wrong += [text for _, problems in results for text in problems]
    check(not wrong, f"seed {SEED}, {len(wrong)} wrong:\n" + "\n".join(wrong[:60]))


def test_leaks_are_looked_for():
    if not LEAKS and not SANITIZED:
        raise Skipped("there is no leak sanitizer beside the compiler; the other cases do not look for leaks")
    prepare()
    check(Fault("import", "leak:0", "leaky").code == LEAKED, "a leak is not found")
    shutil.rmtree("leaky")


def test_the_nth_open():
    try_faults("open")


def test_the_nth_write():
    try_faults("write")


def test_the_nth_fsync():
    try_faults("fsync")


def test_the_nth_rename():
    try_faults("rename")


def test_the_nth_path():
    try_faults("path")


def test_the_nth_mmap():
    try_faults("mmap")


def test_the_nth_thread():
    try_faults("thread")


def test_random_allocations():
    try_faults("alloc")


def test_each_call_site_of_allocations():
    try_faults("site")


if __name__ == "__main__":
    print(f"seed {SEED}, {'every' if ALL else 'sampled'} faults", flush=True)
    run(globals(), "FaultTest")
