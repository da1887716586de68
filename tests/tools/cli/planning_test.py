#!/usr/bin/env python3
"""What `plan` does besides writing one plan by price: contests on this machine, several numbers of devices, limits of
memory, many devices. See harness.py."""

import pathlib
import re

from harness import QUICK, SMALL, answer, check, partita, refuses, run


def test_plan_for_many_devices_is_found_by_pods_and_says_what_it_lacks():
    few = "--machine minsky-32x4 --batch 1024 --evaluations 40 -o pods.textproto"
    found = answer(f"plan lenet {few}", "pods predicted_ns baseline_ms")
    check(found["pods"]["whole"] and found["pods"]["checked"], f"{found['pods']}")
    check(found["pods"]["count"] * found["pods"]["devices"] == 128, f"{found['pods']}")
    check(answer("simulate pods.textproto -o pods.json", "predicted_ns")["predicted_ns"] == found["predicted_ns"],
          "simulate says something else than plan")
    many = "--machine h100-256x8 --batch 8192 --evaluations 40 -o many.textproto"
    text = partita(f"plan alexnet {many}").out
    for pattern in ("256 pods of 8 devices", "checked for the first three", "names collectives, but no order"):
        check(pattern in text, f"'{pattern}' is not in {text}")
    written = pathlib.Path("many.textproto").read_text()
    check("\norder:" not in written and "\nalgorithm {" in written and "\npriority:" in written, "an order")
    found = answer("simulate many.textproto -o pods.json", "predicted_ns file_predicted_ns note tasks")
    check(found["predicted_ns"] == found["file_predicted_ns"] and not found["note"], f"{found}")
    check("written: many.textproto" in partita(f"plan alexnet {many}").out, "the same plan stays")
    unordered = re.sub(r"^(algorithm|bucket) {.*?^}\n", "", pathlib.Path("pods.textproto").read_text(), flags=re.M | re.S)
    unordered = re.sub(r"^(order|priority|task_graph_fingerprint):.*\n", "", unordered, flags=re.M)
    pathlib.Path("unordered.textproto").write_text(unordered)
    note = answer("simulate unordered.textproto -o pods.json", "note")["note"]
    check("names no order of its tasks and no algorithms" in note, note)


def test_profiles_are_listed_forgotten_and_measured_again():
    line = "profile lenet --batch 8 --devices 1 --profile kept.db --profile_time 60"
    first = answer(line, "measured known complete")
    check(first["measured"] > 20 and first["complete"], f"{first}")
    listed = answer("profile --list --profile kept.db", "devices algorithms")["devices"]
    kernels = sum(row["kernels"] for row in listed)
    check(kernels > 10 and all(row["latest"] > 1.7e9 and row["hardware"] for row in listed), f"{listed}")
    text = partita("profile --list --profile kept.db").out
    check(f" {listed[0]['kernels']} kernels, " in text and listed[0]["configuration"] in text, text)
    gone = answer("profile --forget pool2d --profile kept.db", "forgotten")["forgotten"]
    left = sum(row["kernels"] for row in answer("profile --list --profile kept.db", "devices")["devices"])
    check(0 < gone == kernels - left, f"{gone} of {kernels}, {left} left")
    check(0 < answer(line, "measured")["measured"] < first["measured"], "what was forgotten is not measured")
    again = answer(f"{line} --measure_again", "measured known")
    links = sum(row["collectives"] + row["exchanges"] + row["steps"] for row in listed)  # some are the machine's own
    check(again["measured"] + again["known"] == first["measured"] and again["known"] <= links, f"{again}, {links}")
    for wrong in ("profile", "profile lenet --list", "profile --list --forget pool2d"):
        refuses(wrong, 2, "profile takes one of: a model")
    refuses("profile --list --profile absent.db", 3, "there is no file 'absent.db'")


def test_compare_of_many_devices_is_of_experts_for_pods():
    text = partita("compare lenet --machine h100-16x8 --batch 1024 --evaluations 20").out
    for pattern in ("\ndata_parallel ", "one_weird_trick for pods of 8", "searched", "experts for pods"):
        check(pattern in text, f"'{pattern}' is not in {text}")


def test_plan_for_devices_that_share_no_batch_is_found_as_a_whole():
    found = answer("plan lenet --machine minsky-32x4 --batch 67 --evaluations 3 -o whole.textproto", "pods")
    check(found["pods"] is None, f"{found['pods']}")


def test_plan_runs_the_best_plans_and_takes_the_fastest():
    found = answer(f"plan mlp_tiny --batch 64 --seed 3 {SMALL} --measure_time 5 -o contest.plan.textproto", "measured")
    plans, chosen = found["measured"]["plans"], found["measured"]["chosen"]
    check(len(plans) >= 2 and plans[chosen]["steps"] > 0, f"{found['measured']}")
    check(found["predicted_ns"] == plans[chosen]["predicted_ns"], f"{found}")
    check((found["expert"] is not None) == plans[chosen]["is_expert"], f"{found}")
    check(any(plan["is_expert"] for plan in plans), f"{plans}")
    verified = partita("verify --quick contest.plan.textproto").out
    check("note:" not in verified, f"a note about a plan that has just been made: {verified}")
    found = answer(f"plan mlp_tiny --batch 64 --seed 3 {QUICK} -o priced.plan.textproto", "measured")
    check(found["measured"] is None, f"{found['measured']}")


def test_plan_for_several_numbers_of_devices():
    found = answer("plan lenet --machine k80-16x4 --devices 1,2,4 --evaluations 60", "scaling")
    rows = found["scaling"]
    check([row["devices"] for row in rows] == [1, 2, 4], f"{rows}")
    check(rows[0]["predicted_ns"] >= rows[1]["predicted_ns"] >= rows[2]["predicted_ns"], f"{rows}")
    for flags in ("-o two.plan.textproto", "--pareto", "--dump_dir stages_of_two", "--stop_after plan"):
        refuses(f"plan lenet --machine k80-16x4 --devices 1,2 {flags}", 2, r"-o, --pareto, .* are for one number")
    check(not pathlib.Path("stages_of_two").exists(), "a folder for nothing")
    refuses("plan lenet --strategy data_parallel --search mcmc", 2, "--strategy data_parallel leaves nothing to --search")
    for flag in ("--beta 3", "--random_starts 4"):
        refuses(f"plan lenet --machine k80-16x4 --devices 2 {flag}", 2,
                f"{flag.split()[0]} is of --search mcmc.*; the search is auto. Try --search mcmc")
        refuses(f"compare lenet --machine k80-16x4 --devices 2 {flag}", 2, "the search is auto")
    answer("plan lenet --machine k80-16x4 --devices 2 --evaluations 60 --search mcmc --beta 3 -o by_mcmc.plan.textproto",
           "predicted_ns")
    refuses("plan lenet --machine k80-16x4 --devices 1,,2", 2, r"--devices: wanted is a number of devices")


def test_plan_under_a_limit_of_memory():
    line = "plan lenet --machine k80-16x4 --devices 4 --evaluations 200 -o limited.plan.textproto --replace"
    front = answer(f"{line} --pareto", "front")["front"]
    check(front == sorted(front, key=lambda point: point["predicted_ns"]), f"{front}")
    least = front[-1]["peak_bytes_per_device"]
    partita(f"{line} --memory_limit {least + 1000000}")
    refuses(f"{line} --memory_limit 1kB", 4, r"may take 1000")
    refuses(f"{line} --memory_limit 5ZB", 2, r"--memory_limit: wanted is a number of bytes")


if __name__ == "__main__":
    run(globals(), "PlanningTest")
