#!/usr/bin/env python3
"""Checkpoints on the way: what a run leaves however it ends, and that going on from it gives the bits of the run that
was never interrupted. See harness.py. KILLS says how often the run that is killed is killed (6 times without it)."""

import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import time

import harness
from harness import check, lenet_plan, partita, refuses, run

KILLS = int(os.environ.get("KILLS", "6"))


def files(name):
    return sorted(path.name for path in pathlib.Path(".").glob(name + "*"))


def contents(path):
    return pathlib.Path(path).read_bytes()


def training(arguments):
    return f"run {lenet_plan()} --timeline none {arguments}"


def test_no_steps_evaluate_what_was_saved():
    data = "--eval_data synthetic_digits"
    found = json.loads(partita(training(f"--data synthetic_digits --steps 4 --eval_every 2 {data} --save trained.safetensors "
                                        "--json")).out)
    check([one["step"] for one in found["evaluations"]] == [2, 4], f"{found['evaluations']}")
    last = found["evaluations"][-1]
    check((last["loss"], last["accuracy"]) == (found["eval_loss"], found["eval_accuracy"]), f"{found}")
    for start in ("--load", "--resume"):
        again = json.loads(partita(training(f"--steps 0 {data} {start} trained.safetensors --json")).out)
        check(again["losses"] == [] and again["steps"] == 0, f"{again}")
        check(again["eval_loss"] == found["eval_loss"] and len(again["evaluations"]) == 1, f"{again}")
    text = partita(training(f"--steps 0 {data} --load trained.safetensors")).out
    check(text.startswith(f"evaluated: loss {found['eval_loss']:.4f}, accuracy "), text)
    refuses(training("--steps 0"), 2, r"--steps 0 trains nothing; with --eval_data it evaluates")
    refuses(training(f"--steps 0 --epochs 1 {data}"), 2, r"--steps and --epochs")


def damage(path):
    data = bytearray(contents(path))
    data[-1000] ^= 1
    pathlib.Path(path).write_bytes(data)


def steps_of(name):
    """Steps whose checkpoint is there, as the names say."""
    return [int(found[1]) for found in (re.fullmatch(re.escape(name) + r"\.step-(\d+)", f) for f in files(name)) if found]


def header_of(path):
    data = contents(path)
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length]), data[8 + length:]


def with_metadata(path, to, changes):
    """A copy as an old program would have written it, without checksums, and with other metadata."""
    header, data = header_of(path)
    metadata = {key: value for key, value in header["__metadata__"].items() if not key.startswith("partita.sha256")}
    metadata.update(changes)
    text = json.dumps({**header, "__metadata__": metadata}).encode()
    pathlib.Path(to).write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_checkpoints_on_the_way_are_told_and_the_newest_kept():
    found = partita(training("--steps 20 --save told --save_every 5 --keep 2 --json"))
    check(files("told") == ["told", "told.best", "told.step-000015", "told.step-000020"], files("told"))
    for step in (5, 10, 15, 20):
        check(f"checkpoint: told.step-{step:06}, step {step}\n" in found.err, found.err)
    report = found.json()["checkpoints"]
    check(report["written"] >= 5 and report["failed"] == 0 and report["waiting_ms"] >= 0, report)
    best = report["best"]
    check(best["path"] == "told.best" and best["metric"] == "mean training loss", best)
    losses = found.json()["losses"]
    means = {step: sum(losses[step - 5:step]) / 5 for step in (5, 10, 15, 20)}
    check(means[best["step"]] == min(means.values()), f"{best} of {means}")
    check(contents("told") == contents("told.step-000020"), "the last state is saved otherwise")
    partita(training("--steps 15 --save fifteen"))
    check(contents("fifteen") == contents("told.step-000015"), "not the state of a run of 15 steps")


def test_the_best_of_evaluations_is_kept():
    line = training("--steps 9 --save evaluated --save_every 100 --eval_data synthetic:500 --eval_every 2")
    found = partita(line + " --json")
    values = [float(value) for value in re.findall(r"evaluation loss \S+, accuracy (\S+) %", found.err)]
    best = found.json()["checkpoints"]["best"]
    check(best["metric"] == "evaluation accuracy", best)
    check(best["step"] == [2, 4, 6, 8, 9][values.index(max(values))], f"{best} of {values}")
    check(abs(100 * best["value"] - max(values)) < 0.01, f"{best} of {values}")
    metadata = header_of("evaluated.best")[0]["__metadata__"]
    check(metadata["partita.step"] == str(best["step"]), metadata)


def test_checkpoints_by_the_clock():
    partita(training("--steps 300 --save clock --save_every 50ms --keep 1000"))
    steps = steps_of("clock")
    check(steps and steps == sorted(set(steps)), steps)
    partita(training(f"--steps {steps[0]} --save other_clock"))
    check(contents("other_clock") == contents(f"clock.step-{steps[0]:06}"), "another state")


def test_wrong_usage():
    for flags, pattern in (("--save_every 5", "needs --save"), ("--save x --keep 2", "needs --save_every"),
                           ("--save x --save_every 0", "are wanted"), ("--save x --save_every 5x", "are wanted"),
                           ("--save x --save_every -3s", "are wanted"), ("--save x --save_every inf", "are wanted"),
                           ("--save x --save_every 5 --keep 0", "whole number from 1"),
                           ("--save /dev/null --save_every 5", "is no file")):
        refuses(training(flags), 2, pattern)
    check(not files("x") and not pathlib.Path("/dev/null.step-000005").exists(), "something was written")


def killed_once(line, generator):
    """Starts a run and kills it with SIGKILL, before its first checkpoint or soon after one of the first three."""
    wanted = generator.randrange(4)
    with subprocess.Popen([harness.BINARY] + line.split(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as process:
        while wanted > 0:
            wanted -= ".step-" in process.stderr.readline()
        time.sleep(generator.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        check(process.wait() == -signal.SIGKILL, "the run had ended")


def test_a_run_that_is_killed_again_and_again_ends_with_the_bits_of_the_one_that_was_not():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    steps = 400 * KILLS
    partita(training(f"--steps {steps} --save whole"))
    line = training(f"--steps {steps} --save killed --save_every 20 --keep 2")
    there = []  # after each kill
    for _ in range(KILLS):
        killed_once(line + (" --resume killed" if files("killed") else ""), generator)
        there.append(max(steps_of("killed"), default=0))
    found = partita(line + (" --resume killed" if files("killed") else ""))
    print(f"{KILLS} kills, the newest checkpoints after them: {there}")
    check("passed over" not in found.err, found.err)
    check(contents("killed") == contents("whole"), "the weights differ from those of the run that was not killed")
    check(not [name for name in os.listdir(".") if name.startswith(".partita")], "temporary files are left")


def test_a_damaged_checkpoint_is_passed_over_and_said():
    partita(training("--steps 15 --save damaged --save_every 5"))
    damage("damaged")
    damage("damaged.step-000015")
    damage("damaged.best")
    pathlib.Path("damaged.step-000010").write_bytes(contents("damaged.step-000010")[:5000])
    found = partita(training("--steps 15 --save damaged --save_every 5 --resume damaged --json"))
    resumed = found.json()["resumed"]
    check(resumed["path"] == "damaged.step-000005" and resumed["step"] == 5, resumed)
    check(sorted(resumed["passed_over"]) == ["damaged", "damaged.best", "damaged.step-000010",
                                             "damaged.step-000015"], resumed)
    check(len(re.findall("passed over: ", found.err)) == 4, found.err)
    check("resumed: damaged.step-000005, step 5\n" in found.err, found.err)
    partita(training("--steps 15 --save undamaged"))
    check(contents("undamaged") == contents("damaged") == contents("damaged.step-000015"), "other weights")
    for name in files("damaged"):
        damage(name)
    refuses(training("--steps 15 --resume damaged"), 3, "none of the checkpoints of 'damaged' can be resumed from")
    refuses(training("--steps 15 --load damaged.step-000015"), 3, "is damaged: the checksum of tensor")


def test_a_folder_is_resumed_from():
    pathlib.Path("folder").mkdir()
    partita(training("--steps 10 --save folder/mine --save_every 5"))
    os.remove("folder/mine")
    found = partita(training("--steps 10 --resume folder"))
    check("resumed: folder/mine.step-000010, step 10" in found.err, found.err)
    pathlib.Path("folder/yours.best").write_bytes(contents("folder/mine.best"))
    refuses(training("--steps 10 --resume folder"), 3, "several runs: mine, yours")
    pathlib.Path("empty").mkdir()
    refuses(training("--steps 10 --resume empty"), 3, "has no checkpoints")


def test_checkpoints_of_another_run_are_not_mixed_in():
    partita(training("--steps 10 --save mixed --save_every 5"))
    before = {name: contents(name) for name in files("mixed")}
    again = training("--steps 10 --save mixed --save_every 5")
    refuses(again, 2, "of another run than this one, which begins at step 0: --resume mixed goes on")
    refuses(again + " --resume mixed.step-000005", 2, "another run")
    refuses(training("--steps 3 --save mixed --init_seed 8"), 2, "'mixed.step-000010' is a checkpoint of another run")
    check({name: contents(name) for name in files("mixed")} == before, "something changed")
    partita(again.replace("--steps 10", "--steps 12") + " --resume mixed")
    check(header_of("mixed")[0]["__metadata__"]["partita.step"] == "12", "not the new state")


def test_positions_that_cannot_be_are_refused():
    partita(training("--steps 3 --save good.st"))
    with_metadata("good.st", "old.st", {})
    partita(training("--steps 3 --resume old.st"))
    most = str(2**63 - 1)
    for key, values in {"step": ["-1", "2", most, str(2**64), "x", ""], "epoch": ["-1", "1", most, "1.5"],
                        "batch": ["-1", "2", most], "samples": ["-1", "1", most],
                        "seed": ["-1", str(2**64)]}.items():
        for value in values:
            with_metadata("good.st", "bad.st", {f"partita.{key}": value})
            refuses(training("--steps 3 --resume bad.st"), 3, r"bad\.st|samples; found are")


def test_a_run_that_fails_leaves_the_good_checkpoint_and_keeps_its_state_beside():
    partita(training("--steps 3 --save kept"))
    before = contents("kept")
    error = refuses(training("--steps 40 --lr 3e38 --resume kept --save kept"), 1,
                    "'kept' is not touched; the last good state, after step [0-9]+, is in 'kept.failed'")
    check(contents("kept") == before, "the good checkpoint was overwritten")
    step = int(re.search(r"after step (\d+), is in", error["error"]["message"])[1])
    check(header_of("kept.failed")[0]["__metadata__"]["partita.step"] == str(step), "another step")
    found = partita(training(f"--steps {step} --resume kept"))
    check("resumed: kept, step 3" in found.err, "the failed state was taken unasked")
    partita(training(f"--steps {step} --resume kept.failed"))
    os.remove("kept.failed")
    refuses(training("--steps 40 --lr 3e38 --resume kept --save kept --save_every 1"), 1, "in 'kept.failed'")
    check(contents("kept") == before, "the good checkpoint was overwritten")
    error = refuses(training("--steps 40 --lr 3e38 --resume kept --save /dev/null"), 1, "the state is not kept")
    check(not pathlib.Path("/dev/null.failed").exists(), "a file beside a device")


def test_a_disk_that_is_full_on_the_way_is_said_and_leaves_what_was_there():
    folder = pathlib.Path("full")
    folder.mkdir(exist_ok=True)
    size = len(contents(lenet_weights())) // 1024
    mount = ["mount", "-t", "tmpfs", "-o", f"size={4 * size}k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        raise harness.Skipped("only root can mount a small disk")
    try:
        line = training("--steps 20 --save full/w --save_every 2 --keep 100")
        result = partita(line, 5)
        check(re.search(r"warning: no checkpoint of step \d+: .*full/w\.step-\d+.*[Nn]o space", result.err), result.err)
        check(re.search(r"cannot write 'full/w'.*[Nn]o space", result.err), result.err)
        left = sorted(path.name for path in folder.iterdir())
        check(left[0] == "w.best" and left[1].startswith("w.step-") and len(left) >= 2, left)
        (folder / left[0]).unlink()
        found = partita(line.replace("--keep 100", "--keep 1").replace("full/w ", "full/w --resume full/w "))
        check("resumed: full/w.step-" in found.err, found.err)
    finally:
        subprocess.run(["umount", str(folder)], check=False)
    partita(training("--steps 20 --save full_whole"))


def lenet_weights():
    path = pathlib.Path("size.st")
    if not path.exists():
        partita(training(f"--steps 1 --save {path}"))
    return path


if __name__ == "__main__":
    run(globals(), "CheckpointTest")
