#!/usr/bin/env python3
"""What plan files promise: one prediction for one plan, wherever it is asked for, and none that is lost to a worse one.
See harness.py."""

import pathlib
import random
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import time

import harness
from harness import ELSEWHERE, answer, check, partita, refuses, run

ASK = "--devices 2 --oversubscribe --profile_time 0 --evaluations 60"


# ---------------------------------------------------------------------------------------------------- one prediction


def profile():
    """A database of lenet's kernels on this host, beside busy and idle neighbours; made once."""
    if not pathlib.Path("measured.db").exists():
        partita("profile lenet --batch 8 --devices 2 --oversubscribe --profile measured.db --profile_time 3")
    return "measured.db"


def jitter(seed, path):
    """Another database: each record of the first faster or slower by up to three times."""
    shutil.copy(profile(), path)
    draw = random.Random(seed)
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT device, signature, samples_ns FROM record").fetchall()
        for device, signature, blob in rows:
            factor = 3 ** draw.uniform(-1, 1)
            samples = [max(1, int(ns * factor)) for (ns,) in struct.iter_unpack("<q", blob)]
            packed = struct.pack(f"<{len(samples)}q", *samples)
            db.execute("UPDATE record SET samples_ns = ? WHERE device = ? AND signature = ?",
                       (packed, device, signature))
    db.close()
    return len(rows)


def shared_host():
    """This host as two nodes of one device on one computer, joined by a network."""
    path = pathlib.Path("two_nodes.textproto")
    text = partita("machine show local --devices 2 --oversubscribe").out
    text = text[text.index("name:"):]
    second = text.index('name: "cpu1"')
    text = text[:second] + text[second:].replace("memory_bytes:", "node: 1\n    memory_bytes:", 1)
    path.write_text(re.sub(r"( *)memory_bytes:", r'\1host: "box"\n\1memory_bytes:', text))
    return path


def says(plan):
    return int(re.search(r"prediction \{\s*time_ns: (\d+)", pathlib.Path(plan).read_text()).group(1))


def numbers(machine, database, plan):
    """The time of a plan of lenet as plan, its file, simulate and compare have it."""
    flags = f"{ASK} --machine {machine} --profile {database}"
    if machine != "local":
        flags = flags.replace("--oversubscribe ", "")
    planned = answer(f"plan lenet --batch 8 {flags} -o {plan}", "predicted_ns")
    simulated = answer(f"simulate {plan} --profile {database}", "predicted_ns file_predicted_ns note")
    compared = answer(f"compare lenet {plan} --batch 8 {flags}", "strategies notes")
    rows = {row["name"]: row for row in compared["strategies"]}
    notes = [note for note in compared["notes"] if not re.search("devices share|is not looked at", note)]
    check(simulated["note"] == "" and notes in ([], [f"searched: nothing faster than {planned['expert']} was "
                                                               "found, whose plan it is"]), f"{simulated} {compared}")
    experts = [row for row in rows.values() if row["name"] not in ("searched", str(plan)) and "declined" not in row]
    check(all(rows["searched"]["predicted_ns"] <= row["predicted_ns"] for row in experts), f"{rows}")
    return [planned["predicted_ns"], says(plan), simulated["predicted_ns"], simulated["file_predicted_ns"],
            rows[str(plan)]["predicted_ns"], rows["searched"]["predicted_ns"]]


def test_plan_file_simulate_and_compare_have_one_time_for_a_plan():
    cases = []
    for seed in range(4):
        records = jitter(seed, "jittered.db")
        for machine in ("local", shared_host()):
            found = numbers(machine, "jittered.db", f"plan{seed}.textproto")
            check(len(set(found)) == 1, f"seed {seed} on {machine}: {found}")
            cases.append(found[0])
    for machine in ("p100-4x4", "ethernet-4x1g"):
        found = numbers(machine, "none.db", "elsewhere.textproto")
        check(len(set(found)) == 1, f"on {machine}: {found}")
        cases.append(found[0])
    print(f"{len(cases)} plans, by databases of {records} records with seeds 0 to 3 and by none: {cases} ns")


def test_simulate_and_compare_say_that_prices_have_changed():
    shutil.copy(profile(), "changing.db")
    planned = answer(f"plan lenet --batch 8 {ASK} --profile changing.db -o priced.textproto", "predicted_ns")
    jitter(11, "changing.db")
    found = answer("simulate priced.textproto --profile changing.db", "predicted_ns file_predicted_ns note")
    check(found["file_predicted_ns"] == planned["predicted_ns"] != found["predicted_ns"], f"{found}")
    check(re.search(r"its file says .*, today it takes .*records in changing\.db.*--profile", found["note"]), f"{found}")
    check(f"note: {found['note']}" in partita("simulate priced.textproto --profile changing.db").out, "no note")
    compared = answer(f"compare lenet priced.textproto --batch 8 {ASK} --profile changing.db", "strategies notes")
    check(f"priced.textproto: {found['note']}" in compared["notes"], f"{compared['notes']}")
    elsewhere = answer("simulate priced.textproto --machine p100-4x4", "note")
    check("that was for local, 2 devices, float32" in elsewhere["note"], f"{elsewhere}")


def test_nothing_is_called_searched_that_an_expert_beats():
    for limit in ("--evaluations 1", "--evaluations 100000000 --time_limit 0.000001"):
        flags = f"--batch 64 --machine p100-4x4 --devices 2 {limit}"
        rows = answer(f"compare lenet {flags}", "strategies")["strategies"]
        times = {row["name"]: row["predicted_ns"] for row in rows if "declined" not in row}
        check(times["searched"] == min(times.values()), f"{times}")
        planned = answer(f"plan lenet {flags} -o short.textproto --replace", "predicted_ns expert origin")
        check(planned["predicted_ns"] == times["searched"], f"{planned} {times}")
    check(planned["expert"] == planned["origin"] and planned["expert"] in times, f"{planned} {times}")
    text = partita(f"plan lenet {flags} -o short.textproto").out
    check(f"nothing is faster than {planned['expert']}, whose plan this is" in text, text)


def test_compare_lists_a_plan_once():
    flags = "--batch 8 --machine p100-4x4 --devices 1"
    answer(f"plan lenet {flags} -o once.textproto", "plan")
    rows = answer(f"compare lenet once.textproto {flags}", "strategies")["strategies"]
    rows = {row["name"]: row for row in rows if "declined" not in row}
    first = next(iter(rows))
    check(rows[first]["same_as"] is None and len(rows) > 2, f"{rows}")
    for name in ("searched", "once.textproto"):
        check(rows[name]["same_as"] == first, f"{rows[name]}")
        check(rows[name]["predicted_ns"] == rows[first]["predicted_ns"], f"{rows}")
    text = partita(f"compare lenet once.textproto {flags}").out
    check(f"once.textproto: the same plan as {first}\n" in text, text)
    check(not any(line.startswith("once.textproto ") for line in text.splitlines()), text)


def test_compare_looks_at_plans_before_it_profiles():
    partita("plan mlp_tiny --batch 8 --machine p100-4x4 --devices 2 -o other_model.textproto")
    partita("plan lenet --batch 8 --machine p100-4x4 --devices 4 -o four.textproto")
    for plan, pattern in (("other_model.textproto", "the plan is for a training graph"),
                          ("four.textproto", "is for 4 devices; compared are 2")):
        refuses(f"compare lenet {plan} --batch 8 --devices 2 --oversubscribe --profile unmade.db --profile_time 600",
                3, pattern)
        check(not pathlib.Path("unmade.db").exists(), "it has profiled first")


def test_plan_says_how_operators_are_split():
    line = "plan lenet --batch 8 --machine p100-4x4 --devices 4 --strategy"
    found = answer(f"{line} one_weird_trick -o splits.textproto", "splits")["splits"]
    check(found[0]["degrees"] == {"n": 4} and found[0]["replicas"] == 1, f"{found[0]}")
    check(found[0]["devices"] == [{"first": 0, "last": 3, "step": 1}] and found[0]["split"] == "n=4 on 0-3", f"{found[0]}")
    names = [name for split in found for name in split["operators"]]
    check(names[0] == "conv1" and len(names) == len(set(names)) > 8, f"{names}")
    text = partita(f"{line} one_weird_trick -o splits.textproto").out
    check(re.search(r"^  \(.*\bn: samples\b.*\)$", text, re.M) and "o: parameters" in text, text)
    check("n: samples" not in partita(f"{line} single_device -o one.textproto").out, "a legend of nothing")
    line = "plan rnnlm_tiny --unroll 8 --batch 8 --machine p100-4x4 --devices 4 --strategy rnn_stages -o steps.textproto"
    text = partita(line).out
    for last in ("lstm.0.7", "lstm.1.7"):
        check(f"(these 2 lines 6 times more, to {last})" in text and "  lstm.0.2.x .. " not in text, text)
    check(len(answer(line, "splits")["splits"]) > 30, "JSON has every step")
    rows = answer("compare lenet --batch 8 --machine p100-4x4 --devices 4", "strategies")["strategies"]
    for row in rows:
        shares = [row[f"{what}_share"] for what in ("compute", "communication", "idle")] if "declined" not in row else [1]
        check(0.99 <= sum(shares) and all(0 <= share <= 1 for share in shares), f"{row}")


def test_plan_and_simulate_say_what_the_step_waits_for():
    planned = answer(f"plan lenet --strategy data_parallel {ELSEWHERE} -o waits.textproto", "predicted_ns critical")
    simulated = answer("simulate waits.textproto -o waits.json", "predicted_ns critical")
    check(simulated["critical"] == planned["critical"], f"{planned} and {simulated}")
    check(sum(share["ns"] for share in planned["critical"]) == planned["predicted_ns"], f"{planned}")
    kinds = {share["kind"] for share in planned["critical"]}
    check(kinds <= {"kernels", "exchange", "weights", "inputs"} and {"kernels", "weights"} <= kinds, f"{kinds}")
    times = [share["ns"] for share in planned["critical"]]
    check(times == sorted(times, reverse=True) and min(times) > 0, f"{times}")
    check({"of": ["conv2"], "kind": "kernels"}.items() <= planned["critical"][0].items(), f"{planned['critical'][0]}")


# ---------------------------------------------------------------------------------------------------- nothing lost


def bytes_of(path):
    return pathlib.Path(path).read_bytes()


def good_plan(path, model="lenet", evaluations=300):
    """A plan that no expert has, after some searching."""
    flags = ELSEWHERE.replace("50", str(evaluations))
    made = answer(f"plan {model} --batch 64 {flags} -o {path}", "expert predicted_ns")
    check(made["expert"] is None, f"{made}")
    return made


def test_a_slower_plan_goes_beside_a_faster_one():
    good = good_plan("good.plan.textproto")
    kept = bytes_of("good.plan.textproto")
    line = f"plan lenet --batch 64 {ELSEWHERE.replace('50', '1')} -o good.plan.textproto"
    for _ in range(2):  # the second time in place of the first one's result, which is as fast
        found = answer(line, "plan kept predicted_ns")
        check(found["plan"] == "good.slower.plan.textproto", f"{found}")
        check(found["kept"] == {"plan": "good.plan.textproto", "why": "faster", "predicted_ns": good["predicted_ns"]},
              f"{found}")
        check(found["predicted_ns"] == says(found["plan"]) > good["predicted_ns"], f"{found} {good}")
        check(bytes_of("good.plan.textproto") == kept, "the faster plan is lost")
    text = partita(line).out
    check(re.search(r"kept: good\.plan\.textproto, whose plan is faster: .*s at today's prices.*--replace", text), text)
    check("written: good.slower.plan.textproto" in text, text)
    check(answer(f"{line} --replace", "plan kept")["kept"] is None, "--replace keeps")
    check(bytes_of("good.plan.textproto") == bytes_of("good.slower.plan.textproto"), "--replace does not overwrite")


def test_an_experts_plan_replaces_a_faster_one_only_where_the_file_is_named():
    good_plan("lenet.plan.textproto")
    kept = bytes_of("lenet.plan.textproto")
    line = f"plan lenet --batch 64 --strategy single_device {ELSEWHERE}"
    check(answer(line, "plan")["plan"] == "lenet.slower.plan.textproto", "default name")
    check(bytes_of("lenet.plan.textproto") == kept, "the faster plan is lost")
    check(answer(f"{line} -o lenet.plan.textproto", "plan")["plan"] == "lenet.plan.textproto", "named file")
    check(bytes_of("lenet.plan.textproto") == bytes_of("lenet.slower.plan.textproto"), "not replaced")


def test_what_cannot_be_compared_is_replaced_and_said():
    good_plan("other.textproto")
    for flags, said in ((f"--batch 32 {ELSEWHERE}", "at batch 64"),
                        (f"--batch 32 --optimizer adam {ELSEWHERE}", "at batch 32, sgd"),
                        ("--batch 32 --optimizer adam --machine ethernet-4x1g --devices 2 --evaluations 50",
                         "machine 'p100-4x4', 2 devices")):
        found = answer(f"plan lenet {flags} -o other.textproto", "plan replaced kept")
        check(found["plan"] == "other.textproto" and said in found["replaced"], f"{found}")
    check("replaced: other.textproto, a plan for" in partita(f"plan lenet --batch 16 {ELSEWHERE} -o other.textproto").out,
          "it does not say so")


def test_a_file_that_is_no_plan_stays():
    pathlib.Path("notes.txt").write_text("what I did on Monday\n")
    found = answer(f"plan lenet {ELSEWHERE} -o notes.txt", "plan kept")
    check(found["plan"] == "notes.new.txt" and "cannot be read as a plan" in found["kept"]["why"], f"{found}")
    check(pathlib.Path("notes.txt").read_text() == "what I did on Monday\n", "the file is lost")
    pathlib.Path("empty.textproto").write_text("")
    check(answer(f"plan lenet {ELSEWHERE} -o empty.textproto", "plan")["plan"] == "empty.textproto", "empty file")


# Random strategies are slower than what a search finds for longer than anyone waits.
def test_an_interrupted_search_replaces_no_better_plan():
    good = good_plan("long.plan.textproto", "lenet", 2500)
    kept = bytes_of("long.plan.textproto")
    flags = ELSEWHERE.replace("50", "9000000000000000000")
    command = f"plan lenet --batch 64 --search random {flags} -o long.plan.textproto --dump_dir long --json"
    process = subprocess.Popen([harness.BINARY] + command.split(), stdout=subprocess.PIPE, text=True)
    while not pathlib.Path("long/15_search.csv").exists():
        check(process.poll() is None, "it ended by itself")
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    check(process.returncode == 130, f"exit {process.returncode}: {out}")
    found = harness.json.loads(out)
    check(found["interrupted"] and found["plan"] == "long.interrupted.plan.textproto", out)
    check(found["kept"]["predicted_ns"] == good["predicted_ns"] < found["predicted_ns"], out)
    check(bytes_of("long.plan.textproto") == kept, "the better plan is lost")
    check(says("long.interrupted.plan.textproto") == found["predicted_ns"], out)


def test_a_priority_that_is_chosen_is_stored_in_the_plan():
    names = [row["name"] for row in answer("list priorities", "priorities")["priorities"]]
    check(len(names) > 1, f"{names}")
    for choice, stored in [("", names[0])] + [(f"--priority {name}", name) for name in names]:
        partita(f"plan alexnet_s56 --batch 16 {ELSEWHERE} --strategy data_parallel {choice} -o priority.textproto")
        text = pathlib.Path("priority.textproto").read_text(encoding="utf-8")
        check(re.search(rf'priority: "{stored}"', text), f"'{choice}' does not give {stored}")
        check(f'"priority={stored}"' in text or not choice, f"no provenance of {choice}")
        partita("simulate priority.textproto")
    rows = answer(f"compare alexnet_s56 --batch 16 {ELSEWHERE} --priority {names[1]}", "strategies options")
    check(rows["options"]["priority"] == names[1], rows)
    refuses(f"plan lenet {ELSEWHERE} --priority magic", 2, f"priority: unknown priority 'magic'.*{names[1]}")


def test_answers_have_the_options_that_held_and_plans_keep_them():
    found = answer(f"plan lenet --batch 8 {ELSEWHERE} --seed 7 -o options.textproto", "options")["options"]
    check((found["seed"], found["evaluations"], found["batch"], found["strategy"]) == (7, 50, 8, None), f"{found}")
    text = pathlib.Path("options.textproto").read_text(encoding="utf-8")
    for option in ("evaluations=50", "seed=7", "batch=8", "machine=p100-4x4", "beta=200"):
        check(f'"{option}"' in text, f"no {option} in {text[:2000]}")


if __name__ == "__main__":
    run(globals(), "PlanFilesTest")
