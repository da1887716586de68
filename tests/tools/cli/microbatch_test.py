#!/usr/bin/env python3
"""Batches in microbatches, from plan to run. See harness.py."""

import pathlib
import re

from harness import ELSEWHERE, QUICK, answer, check, partita, refuses, run


def plan(model, microbatches, more=QUICK, in_flight=1):
    """The answer of `plan`, and its file."""
    path = f"{model}.{microbatches}.{in_flight}.plan.textproto"
    flags = f"--microbatches {microbatches} --in_flight {in_flight} --replace -o {path} {more}"
    return answer(f"plan {model} --batch 16 {flags}", "predicted_ns"), path


def test_a_plan_of_microbatches_equals_the_serial_model():
    for in_flight in (0, 1, 2):
        _, path = plan("lenet", 4, in_flight=in_flight)
        check(answer(f"verify {path}", "equal")["equal"] is True, f"{path} is another model")


def test_a_plan_knows_its_microbatches():
    _, path = plan("lenet", 4, in_flight=2)
    text = pathlib.Path(path).read_text()
    check(re.search(r"microbatches: 4\s+in_flight: 2", text), "they are not in the plan")
    check("microbatches: " not in pathlib.Path(plan("lenet", 1)[1]).read_text(), "one microbatch is worth no word")


def test_losses_are_those_of_the_whole_batch():
    runs = {}
    for count in (1, 2, 4):
        _, path = plan("lenet", count)
        runs[count] = answer(f"run {path} --steps 4", "losses")["losses"]
    for count, losses in runs.items():
        near = all(abs(a - b) < 1e-4 * abs(b) for a, b in zip(losses, runs[1]))
        check(near and len(losses) == 4, f"{count} microbatches: {losses} instead of {runs[1]}")


def test_a_run_resumes():
    _, path = plan("resnet_tiny", 4)
    partita(f"run {path} --steps 3 --save half.safetensors")
    whole = answer(f"run {path} --steps 5", "losses")["losses"]
    rest = answer(f"run {path} --steps 5 --resume half.safetensors", "losses")["losses"]
    check(whole[-len(rest):] == rest, f"resumed losses {rest} are not the end of {whole}")
    other = plan("resnet_tiny", 2)[1]
    refuses(f"run {other} --steps 5 --resume half.safetensors", 3, "number of microbatches; load its weights instead")


def test_a_run_evaluates():
    found = answer(f"run {plan('lenet', 4)[1]} --steps 2 --eval_data synthetic", "eval_loss eval_accuracy")
    check(found["eval_loss"] > 0 and 0 <= found["eval_accuracy"] <= 1, f"{found}")


def test_activations_take_less_memory():
    peaks = []
    for count in (1, 2, 4):
        _, path = plan("resnet18", count, ELSEWHERE + " --strategy data_parallel")
        listed = re.search(r"peak_bytes: \[([^]]*)\]", pathlib.Path(path).read_text()).group(1)
        peaks.append(max(int(peak) for peak in listed.split(",")))
    check(peaks[0] > peaks[1] > peaks[2] and peaks[0] > 1.25 * peaks[2], f"peaks {peaks}")


def test_what_cannot_be_is_refused():
    refuses(f"plan lenet --batch 16 --microbatches 3 {QUICK}", 2, "16 samples cannot be split into 3 equal microbatches")
    refuses(f"plan lenet --batch 16 --microbatches 0 {QUICK}", 2, "from 1 to")
    refuses(f"plan lenet --batch 16 --in_flight 2 {QUICK}", 2, "microbatches")


def test_searches_and_comparisons_take_them():
    found = answer(f"compare lenet --batch 16 --microbatches 2 {QUICK} --verify --quick", "strategies")
    check(all(row["equal_to_serial"] for row in found["strategies"] if row.get("predicted_ns")), f"{found}")
    partita(f"profile lenet --batch 16 --microbatches 2 --devices 2 --oversubscribe --profile m.db --profile_time 1")


if __name__ == "__main__":
    run(globals(), "MicrobatchTest")
