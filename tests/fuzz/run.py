#!/usr/bin/env python3
"""Fuzzes the readers with libFuzzer, or prints the coverage of what is kept.

  tests/fuzz/run.py --minutes 5            every target for 5 minutes, then its corpus minimised
  tests/fuzz/run.py --targets onnx,plan    these alone
  tests/fuzz/run.py --coverage             lines of the readers that corpus and mutators reach

Builds in build-fuzz (clang with libFuzzer: Debian's packages clang-19 and libclang-rt-19-dev and libomp-19-dev) and in
build-coverage (g++ and gcov). A fault's input stays in build-fuzz/faults; exit status 1 then.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests/fuzz/corpus"
MOST_BYTES = 1 << 16  # of an input that libFuzzer makes, and of one that is kept
KEPT_BYTES = 1 << 16  # of a target's corpus, the smallest first; with what has a name of its own
KEPT_FILES = 60
COVERED = 90  # per cent; of a reader below that, lines are named

# Sources of the readers.
READERS = [
    "graph/onnx/*.cc", "graph/model/*.cc", "graph/parallel/plan_io.cc", "graph/parallel/strategy_text.cc",
    "graph/parallel/topology_io.cc", "graph/parallel/plan_collectives.cc", "cost_model/machine_io.cc",
    "cost_model/profile_db.cc", "cost_model/sqlite.cc", "runtime/train/checkpoint.cc",
    "runtime/train/data/idx.cc", "runtime/train/data/jpeg.cc", "runtime/train/data/png.cc",
    "runtime/train/data/image_listing.cc", "runtime/train/data/safetensors*.cc", "runtime/train/data/words.cc",
    "runtime/launch/watchdog_messages.cc", "runtime/launch/rank_environment.cc", "runtime/comm/tcp/connection.cc",
    "runtime/comm/tcp/handshake.cc", "runtime/comm/tcp/reception.cc", "runtime/comm/tcp/tcp_meeting.cc",
    "runtime/comm/tcp/tcp_port.cc", "runtime/comm/message_port.cc",
    "tools/workflow/instruction_records.cc", "tools/workflow/training_model.cc",
]


def run(command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def build(folder, target, flags, compilers):
    run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DPARTITA_TESTS=ON", "-DPARTITA_BENCH=OFF",
         "-DPARTITA_WERROR=OFF", "-DPARTITA_CUDA=OFF", "-DPARTITA_MPI=OFF", "-DCMAKE_UNITY_BUILD=ON",
         "-DCMAKE_UNITY_BUILD_BATCH_SIZE=8", *flags, *compilers], stdout=subprocess.DEVNULL)
    run(["cmake", "--build", folder, "--target", *target])


def clang():
    for name in ["clang++-19", "clang++"]:
        if shutil.which(name):
            return [f"-DCMAKE_CXX_COMPILER={name}", f"-DCMAKE_C_COMPILER={name.replace('++', '')}"]
    sys.exit("There is no clang here. Try: apt-get install clang-19 libclang-rt-19-dev libomp-19-dev; without it, "
             "build/tests/fuzz/fuzz drives the same targets by the mutators of this folder")


def names_of(program, wanted):
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    names = [line.split(":")[0] for line in listed.splitlines()]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"no target is called {unknown[0]}; there are: {' '.join(names)}")
    return wanted or names


def keep_smallest(new, kept):
    """Replaces the files in a folder that libFuzzer has named, by their hashes; others stay. Returns how many."""
    for path in kept.iterdir():
        if re.fullmatch("[0-9a-f]{40}", path.name):
            path.unlink()
    count = total = 0
    for path in sorted(new, key=lambda path: (path.stat().st_size, path.name)):
        total += path.stat().st_size
        if total > KEPT_BYTES or count == KEPT_FILES:
            break
        shutil.copy(path, kept / path.name)
        count += 1
    return count


def fuzz_target(folder, name, seconds):
    """Fuzzes one target; returns a line about it, or None after a fault."""
    program = folder / "tests/fuzz/fuzz_libfuzzer"
    environment = dict(os.environ, PARTITA_FUZZ_TARGET=name, ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1")
    faults = folder / "faults"
    faults.mkdir(exist_ok=True)
    kept = CORPUS / name
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        run([folder / "tests/fuzz/fuzz", "--targets", name, "--write_seeds", scratch / "seeds"])
        (scratch / "found").mkdir()
        limits = [f"-max_len={MOST_BYTES}", "-timeout=10", "-rss_limit_mb=2048"]
        log = faults / f"{name}.log"
        with open(log, "wb") as output:
            done = subprocess.run([program, *limits, f"-max_total_time={seconds}", "-print_final_stats=1",
                                   f"-artifact_prefix={faults}/{name}-", scratch / "found", kept,
                                   scratch / "seeds" / name], env=environment, stdout=output, stderr=output)
        text = log.read_text(errors="replace")
        if done.returncode != 0:
            print(f"{name}: FAULT, see {log}", flush=True)
            return None
        (scratch / "merged").mkdir()
        run([program, *limits, "-merge=1", scratch / "merged", kept, scratch / "seeds" / name, scratch / "found"],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seeds = {path.read_bytes() for path in (scratch / "seeds" / name).iterdir()}
        new = [path for path in (scratch / "merged").iterdir() if path.read_bytes() not in seeds]
        count = keep_smallest(new, kept)
    inputs = [line.split()[-1] for line in text.splitlines() if "number_of_executed_units" in line]
    return f"{name}: {inputs[0] if inputs else '?'} inputs, {count} kept"


def fuzz(options):
    folder = ROOT / "build-fuzz"
    build(folder, ["fuzz", "fuzz_libfuzzer"],
          ["-DPARTITA_SANITIZE=fuzzer-no-link,address,undefined", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1"], clang())
    names = names_of(folder / "tests/fuzz/fuzz", options.targets)
    good = True
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for line in pool.map(lambda name: fuzz_target(folder, name, int(options.minutes * 60)), names):
            good = good and line is not None
            if line:
                print(line, flush=True)
    return 0 if good else 1


def lines_of(folder):
    """{source: {line: times}} of all that ran, of the sources of this project."""
    times = {}
    notes = list(folder.rglob("*.gcda"))
    for begin in range(0, len(notes), 50):
        # A line of JSON for each; files would have one name for all objects called unity_0.
        text = run(["gcov", "--json-format", "--stdout", *notes[begin:begin + 50]], stdout=subprocess.PIPE,
                   stderr=subprocess.DEVNULL, text=True).stdout
        for source in (source for line in text.splitlines() for source in json.loads(line)["files"]):
            of_source = times.setdefault(source["file"], {})
            for line in source["lines"]:
                number = line["line_number"]
                of_source[number] = of_source.get(number, 0) + line["count"]
    return times


def ranges(numbers):
    """Numbers as text: 3-5, 9."""
    parts = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def coverage(options):
    folder = ROOT / "build-coverage"
    build(folder, ["fuzz"], ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DPARTITA_PRECOMPILE=OFF",
                             "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-Og -g1 --coverage"], [])
    for path in folder.rglob("*.gcda"):
        path.unlink()
    program = folder / "tests/fuzz/fuzz"
    for name in names_of(program, options.targets):
        run([program, "--targets", name, "--inputs", options.inputs, "--seconds", options.seconds], cwd=folder)
    times = lines_of(folder)
    reached = total = 0
    print(f"{'reader':50} lines reached")
    for pattern in READERS:
        for path in sorted(ROOT.glob(pattern)):
            lines = times.get(str(path), {})
            if not lines:
                continue
            missed = [number for number, count in lines.items() if count == 0]
            share = 100 * (1 - len(missed) / len(lines))
            reached += len(lines) - len(missed)
            total += len(lines)
            note = f"  not: {ranges(missed)}" if share < COVERED else ""
            print(f"{str(path.relative_to(ROOT)):50} {len(lines):5} {share:5.1f} %{note}")
    print(f"{'all':50} {total:5} {100 * reached / max(total, 1):5.1f} %")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=lambda text: text.split(","), default=[])
    parser.add_argument("--minutes", type=float, default=1, help="for each target (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at a time")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--inputs", type=int, default=20000, help="damaged inputs of --coverage, for each target")
    parser.add_argument("--seconds", type=float, default=60, help="of --coverage, for each target at most (default: 60)")
    options = parser.parse_args()
    return coverage(options) if options.coverage else fuzz(options)


if __name__ == "__main__":
    sys.exit(main())
